"""Findings of real torch programs; and torch's own matchers, on our events and on torch's."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import opscope  # noqa: E402

EVERYTHING = {
    "record_shapes": True, "profile_memory": True, "with_stack": True, "with_modules": True,
}  # fmt: skip


def line_of(text):
    """The line of this file that holds ``text``, here excepted."""
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line and "line_of" not in line)


def step(network, optimizer, images):
    optimizer.zero_grad(set_to_none=False)
    network(images).sum().backward()
    optimizer.step()


class First:
    def __del__(self):
        pass


class Second:
    def __del__(self):
        pass


def garbage(kinds):
    """What a collection calls functions for, one after the other: no loop of the line it is in."""
    for kind in kinds:
        closed = kind()
        closed.itself = closed


@pytest.fixture(scope="module")
def findings():
    layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(4 * 36, 5))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1, foreach=False)
    loader = torch.utils.data.DataLoader(torch.randn(16, 3, 8, 8), batch_size=4)
    step(network, optimizer, torch.randn(4, 3, 8, 8))
    with opscope.profile(**EVERYTHING) as profile:
        for images in loader:  # loads here
            step(network, optimizer, images)
        table = torch.empty(20, 20)
        for row in range(20):
            table.select(0, row).fill_(row)  # indexes here
        half = torch.randn(7, 9, dtype=torch.bfloat16)
        torch.mm(half, half.t())  # odd sizes here
        garbage([First, Second] * 16)
        gc.collect()
    return profile.trace.findings()


@pytest.mark.parametrize(
    ("pattern", "occurrences", "where"),
    [
        ("single-tensor-optimizer", 4, "    optimizer.step()"),
        ("gradients-set-to-zero", 4, "    optimizer.zero_grad(set_to_none=False)"),
        ("convolution-bias-before-batch-norm", 4, "    network(images).sum()"),
        ("for-loop-indexing", 40, "  # indexes here"),  # twenty rounds of two calls
        ("unaligned-matmul", 1, "  # odd sizes here"),
    ],
)
def test_mistakes_are_found_at_their_lines(findings, pattern, occurrences, where):
    finding = findings[pattern]
    assert finding.occurrences == occurrences
    assert finding.places[0].line == line_of(where)
    assert Path(finding.places[0].file).name == Path(__file__).name
    assert finding.place_note == ""
    assert 0 < finding.time_ns <= findings.wall_ns


def test_a_program_without_mistakes_has_none_of_them():
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, bias=False), torch.nn.BatchNorm2d(4), torch.nn.Flatten(),
        torch.nn.Linear(4 * 36, 5),
    )  # fmt: skip
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1, fused=True)
    with opscope.profile(**EVERYTHING) as profile:
        for _ in range(3):
            optimizer.zero_grad()
            network(torch.randn(4, 3, 8, 8)).sum().backward()
            optimizer.step()
    absent = profile.trace.findings().absent
    assert {
        "single-tensor-optimizer", "gradients-set-to-zero", "for-loop-indexing",
        "convolution-bias-before-batch-norm", "unaligned-matmul", "repeated-copies",
    } <= set(absent)  # fmt: skip


def test_a_saving_can_be_measured():
    half = torch.randn(7, 9, dtype=torch.bfloat16)
    with opscope.profile(record_shapes=True) as profile:
        torch.mm(half, half.t())
    derived, measured = (
        profile.trace.findings(benchmark=how)["unaligned-matmul"] for how in (False, True)
    )
    assert derived.saved_ns is None and not derived.measured
    assert measured.measured and 0 <= measured.saved_ns <= measured.time_ns
