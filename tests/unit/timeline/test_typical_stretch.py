"""The stretch that stands for a long recording."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from opscope.columns.metadata_kinds import SAMPLE
from opscope.columns.names import Names
from opscope.columns.schema import EventKind
from opscope.timeline import typical_stretch
from opscope.timeline.period import detailed_period_of, period_of
from opscope.timeline.typical_stretch import COLUMNS, outline_of, typical_part
from support.build_trace import build_trace, span
from support.repeat_trace import repeat_trace

NAMES = Names.from_strings(
    ["aten::mm", "Optimizer.step#SGD.step", "ProfilerStep#7", "nn.Module: Net"]
)
MM, OPTIMIZER, SCHEDULED, MODULE = range(4)
KINDS = {
    MM: EventKind.OPERATOR,
    OPTIMIZER: EventKind.ANNOTATION,
    SCHEDULED: EventKind.ANNOTATION,
    MODULE: EventKind.MODULE_CALL,
}
EACH = 100


def program(took_us, mark=OPTIMIZER):
    """A hundred events a step, of which the last is its mark, and runs to the end of the step."""
    took = np.asarray(took_us, dtype=np.int64) * 1000
    begins = np.cumsum(took) - took
    start = (begins[:, None] + (took[:, None] * np.arange(EACH)) // EACH).ravel()
    name = np.full(len(start), MM)
    duration = np.full(len(start), 10)
    last = np.arange(len(took)) * EACH + EACH - 1
    name[last], duration[last] = mark, (begins + took) - start[last]
    kind = np.array([KINDS[one] for one in range(4)])[name]
    return dict(zip(COLUMNS, (name, kind, start, duration), strict=True))


def find_stretch(pieces, most):
    if (found := outline_of(NAMES, pieces).stretch(most)) is None:
        return None
    begin_ns, end_ns, added = found
    return SimpleNamespace(begin_ns=begin_ns, end_ns=end_ns, **added[SAMPLE])


def split(columns, at):
    return [dict(zip(columns, parts, strict=True)) for parts in zip(
        *(np.split(column, at) for column in columns.values()), strict=True
    )]  # fmt: skip


def test_it_is_of_whole_steps_in_a_row_no_more_events_than_wanted():
    found = find_stretch([program([1000] * 500)], 10_000)
    assert found.begin_ns % 1_000_000 == found.end_ns % 1_000_000 == 0
    assert 80 <= found.steps <= 110 and found.of_steps == 499
    assert found.end_ns - found.begin_ns == found.steps * 1_000_000


def test_what_is_slow_now_and_then_has_its_part():
    took = np.where(np.arange(1000) % 40 == 0, 21_000, 500)  # half of the time is in these
    found = find_stretch([program(took)], 10_000)
    mean_ns = (found.end_ns - found.begin_ns) / found.steps
    assert mean_ns == pytest.approx(took.mean() * 1000, rel=0.25)


def test_pieces_are_one_recording():
    columns = program([1000] * 500)
    whole = find_stretch([columns], 10_000)
    assert find_stretch(split(columns, [7, 8, 30_001, 30_002, 47_777]), 10_000) == whole


def test_the_first_steps_are_not_in_it():
    took = [5000] * 3 + [1000] * 400
    assert find_stretch([program(took)], 5_000).begin_ns >= 15_000_000


@pytest.mark.parametrize("mark", [OPTIMIZER, SCHEDULED, MODULE])
def test_steps_are_those_that_other_views_count(mark):
    found = find_stretch([program([1000] * 300, mark)], 10_000)
    assert found.of_steps == 299 and found.steps > 50


def test_without_steps_it_is_as_many_events():
    found = find_stretch([program([1000] * 500, MM)], 10_000)
    assert found.steps == found.of_steps == 0
    assert 80_000_000 <= found.end_ns - found.begin_ns <= 120_000_000


def test_a_step_of_too_many_events_is_cut():
    steps = program([500_000] * 12 * EACH, MM)  # twelve steps of 10,000 events
    last = np.arange(1, 13) * EACH * EACH - 1
    steps["name"][last], steps["kind"][last] = OPTIMIZER, EventKind.ANNOTATION
    found = find_stretch([steps], 5_000)
    assert found.steps == found.of_steps == 0
    assert found.end_ns - found.begin_ns < 500_000_000 * EACH


def test_there_is_none_of_a_recording_that_is_not_long():
    assert find_stretch([program([1000] * 50)], 10_000) is None
    assert find_stretch([], 10_000) is None


def test_a_part_of_a_trace_says_of_how_much_it_is(monkeypatch):
    one = build_trace(
        [
            *(span("aten::mm", at, at + 8) for at in range(0, 990, 10)),
            span("Optimizer.step#SGD.step", 990, 999, kind=EventKind.ANNOTATION),
        ]
    )
    trace = repeat_trace(one, 300, 1_000_000)
    assert typical_part(trace) is None
    monkeypatch.setattr(typical_stretch, "SAMPLE_EVENTS", 10_000)
    part = typical_part(trace.with_metadata({}))
    assert 5_000 < len(part.trace.events) < 11_000
    assert (trace.events["name"][part.rows] == part.trace.events["name"]).all()
    period = detailed_period_of(trace)
    assert (trace.events["name"][period.rows] == period.trace.events["name"]).all()
    said = str(period_of(part.trace))
    assert said.startswith("steady state, ") and "of 299 steps of the optimizer" in said
    assert not period_of(part.trace).start_up.is_any, "there is no start-up in it"


def test_a_short_steady_state_after_a_long_start_is_judged_whole(monkeypatch):
    set_up = [span("file", at, at + 8, kind=EventKind.ANNOTATION) for at in range(0, 40_000, 10)]
    steps = [
        one
        for begin in range(60_000, 68_000, 1000)
        for one in (
            span("aten::mm", begin, begin + 900),
            span("Optimizer.step#SGD.step", begin + 910, begin + 990, kind=EventKind.ANNOTATION),
        )
    ]
    trace = build_trace([*set_up, *steps])
    monkeypatch.setattr(typical_stretch, "SAMPLE_EVENTS", 1000)
    period = detailed_period_of(trace)
    assert period.start_up.took_ns and period.wall_ns < 10_000_000
