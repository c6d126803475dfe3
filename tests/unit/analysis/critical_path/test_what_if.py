"""Replays: without a change as recorded, with one as the simulated machine says."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.analysis.critical_path.what_if import find_what_if
from opscope.columns.codes import EventKind
from opscope.errors import UsageError
from support.build_trace import build_trace, kernel, span
from support.simulated_programs import random_program, run, scaled


@pytest.mark.parametrize("seed", range(8))
def test_without_a_change_a_replay_takes_as_long_as_the_recording(seed):
    took_us, trace = run(random_program(seed))
    assert find_what_if(trace, {}).after_ns == pytest.approx(took_us * 1000, rel=0.03)


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.5])
@pytest.mark.parametrize("seed", range(8))
def test_a_change_moves_what_waits_for_it(seed, factor):
    program = random_program(seed)
    took_us, trace = run(program)
    for name in ("launch_0", "cpu_1"):
        if not any(one.name == name for one in program):
            continue
        expected_us, _ = run(scaled(program, name, factor))
        key = name if name.startswith("launch") else f"aten::{name}"
        found = find_what_if(trace, {key: factor})
        # Delays of launches that other work hides are not seen.
        assert found.after_ns / 1000 == pytest.approx(expected_us, abs=0.03 * took_us)


def steps():
    return [
        one
        for i in range(4)
        for one in (
            span(f"ProfilerStep#{i}", i * 100, i * 100 + 100),
            span("net", i * 100, i * 100 + 60, kind=EventKind.MODULE_CALL, module="Net_0"),
            span(
                "aten::mm", i * 100 + 10, i * 100 + 50, caller=("/home/train.py", 1, "f"), line=12
            ),
            span("aten::add", i * 100 + 60, i * 100 + 90),
        )
    ]


@pytest.mark.parametrize("name", ["aten::mm", "train.py:12"])
def test_operators_and_lines_by_their_names(name):
    found = find_what_if(build_trace(steps()), {name: 0.5})
    assert found.steps_before_ns.tolist() == [100_000] * 4
    assert found.steps_after_ns.tolist() == [80_000] * 4
    assert found.saved_share == pytest.approx(0.2)
    assert "a step 100 µs → 80.0 µs" in repr(found)


def test_what_is_hidden_behind_something_else_saves_nothing():
    trace = build_trace(
        [
            span("cudaLaunchKernel", 0, 5, kind=EventKind.RUNTIME_CALL),
            span("aten::add", 5, 60),
            span("cudaDeviceSynchronize", 60, 200, kind=EventKind.RUNTIME_CALL),
        ],
        gpu=[kernel("gemm", 6, 199, launch=0)],
    )
    found = find_what_if(trace, {"aten::add": 0.0})
    assert (found.changed_ns, found.saved_ns) == (55_000, 0)


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        *(
            ({"aten::mm": factor}, "The factor of")
            for factor in (-1, np.inf, 1e300, np.nan, "half")
        ),
        *((factors, "half of its time") for factors in ("aten::mm", ["aten::mm"], None)),
        *(({name: 0.5}, "not a part of a program") for name in ("", 3, None)),
        ({"aten::mn": 0.5}, "Did you mean 'aten::mm'"),
    ],
)
def test_what_cannot_be_replayed_is_refused(factors, said):
    with pytest.raises(UsageError, match=said):
        find_what_if(build_trace(steps()), factors)
