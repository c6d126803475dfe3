"""Findings about real programs: each fault at its line, nothing where it is mended, and no answer
where what it needs was not recorded."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.support import advised_programs as programs  # noqa: E402
from tests.support.advice import (  # noqa: E402
    EVERYTHING,
    LEVELS,
    findings_of,
    in_some_recording,
    is_at,
    marked_lines,
)
from tests.support.advised_programs import (  # noqa: E402
    DATA,
    FAULTS,
    elements,
    kept,
    products,
    shuffled,
)

import opscope  # noqa: E402


@pytest.mark.parametrize(
    ("pattern", "faulty", "mark", "level"),
    [
        (*one, level)
        for one, level in zip(
            dict.fromkeys(one[:3] for one in FAULTS), itertools.cycle(LEVELS), strict=False
        )
    ],
)
def test_a_fault_is_found_at_its_line(pattern, faulty, mark, level):
    file = faulty.__code__.co_filename
    assert in_some_recording(faulty, is_at(pattern, file, mark), level)


@pytest.mark.parametrize(("pattern", "_", "mark", "mended"), FAULTS)
def test_a_program_like_it_does_not_have_it(pattern, _, mark, mended):
    level = EVERYTHING if pattern == "modules-made-again" else LEVELS[1]
    assert in_some_recording(mended, lambda found: pattern in found.absent, level)


OPERATORS_SHOW = ("for-loop-indexing", "data-shuffled-again")
"""Some of these are seen where operators alone were recorded."""


NEEDING = (*OPERATORS_SHOW, "graph-that-grows", "time-outside-torch", "memory-that-grows")
"""Each needs something else, or nothing: that a pattern says so is one mechanism for all."""


@pytest.mark.parametrize(
    ("pattern", "program"),
    {pattern: faulty for pattern, faulty, *_ in FAULTS if pattern in NEEDING}.items(),
)
def test_without_what_it_needs_there_is_no_answer(pattern, program):
    findings = findings_of(program)
    unchecked = {one.id: one.needs for one in findings.unchecked}
    if pattern == "graph-that-grows":  # operators alone show it, but not where it is
        assert pattern not in unchecked
        return
    if pattern in OPERATORS_SHOW and pattern in [one.id for one in findings]:
        return
    assert "Record" in unchecked[pattern]
    assert pattern not in [one.id for one in findings] and pattern not in findings.absent


def test_a_loop_of_reads_and_writes_is_found_without_stacks_too():
    assert findings_of(elements)["for-loop-indexing"].place_note


def test_memory_that_grows_is_reported_in_bytes():
    finding = findings_of(kept, **EVERYTHING)["memory-that-grows"]
    # Twenty hidden layers of 512 by 256 floats, before and after the ReLU; how many rounds count as
    # start-up depends on how long they took.
    assert finding.saved_bytes >= 10 * 512 * 256 * 4
    assert finding.saved_ns is None and finding.severity == "high"


def test_what_no_finding_explains_is_reported_with_its_lines():
    def is_said(findings):
        unexplained = findings.unexplained
        assert 0 < unexplained.share <= 1
        assert any("has no finding" in note for note in findings.notes)
        first = unexplained.places[0]
        is_here = Path(first.file).name == Path(programs.__file__).name
        is_here &= first.line in marked_lines(programs.__file__, "products")
        return unexplained.parts[0][0] == "torch's operators" and is_here

    assert in_some_recording(products, is_said)


def test_start_up_is_left_out_and_reported():
    network = torch.nn.Linear(64, 64)

    def program():
        optimizer = torch.optim.Adam(network.parameters())
        for _ in range(25):
            optimizer.zero_grad()
            network(torch.rand(4, 64)).sum().backward()
            optimizer.step()

    def is_said(findings):
        left_out = "Left out: start-up" in findings.looked_at
        return findings.start_up_ns > 0 and "first step" in findings.start_up and left_out

    assert in_some_recording(program, is_said, {"with_modules": True})


def test_workers_are_no_advice_where_every_batch_begins_the_data_again():
    ids = {finding.id for finding in findings_of(shuffled)}
    assert "data-shuffled-again" in ids and "synchronous-data-loading" not in ids


def test_what_a_loop_costs_its_backward_pass_is_in_its_saving():
    rows = DATA.clone().requires_grad_()

    def training(rows):
        return lambda: torch.stack([rows[i].exp() for i in range(512)]).sum().backward()

    def saves_most(findings):
        loop = findings["for-loop-indexing"]
        return loop.saved_share > 0.6 and "backward" in loop.saved_by

    assert in_some_recording(training(rows), saves_most)


def test_a_saving_can_be_measured():
    half = torch.randn(7, 9, dtype=torch.bfloat16)
    with opscope.profile(record_shapes=True) as profile:
        torch.mm(half, half.t())
    derived, measured = (
        profile.trace.findings(benchmark=how)["unaligned-matmul"] for how in (False, True)
    )
    assert derived.saved_ns is None and not derived.measured
    assert measured.measured and 0 <= measured.saved_ns <= measured.time_ns
