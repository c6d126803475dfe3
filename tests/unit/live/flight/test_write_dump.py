"""What was left out is seen in the timeline and counted in no table."""

from opscope.analysis.top_operators import DEFAULT_SORT, find_top_operators
from opscope.live.flight.write_dump import LINE, CollectedPeriod, periods_of, with_track
from opscope.timeline.period import period_of
from opscope.timeline.waits import TimeKind, time_kind
from support.build_trace import ORIGIN_NS, build_trace, span

CHANGES = [(0, "operators"), (100, "steps"), (200, "operators")]


def test_periods_are_cut_to_the_recording():
    assert [p.level for p in periods_of(CHANGES, 120, 180)] == ["steps"]
    assert periods_of([], 0, 10) == []


def test_a_line_shows_when_less_was_recorded_and_parents_stay():
    trace = build_trace([span("outer", 0, 90), span("aten::mm", 40, 60)])
    periods = [
        CollectedPeriod(ORIGIN_NS, ORIGIN_NS + 20_000, "operators"),
        CollectedPeriod(ORIGIN_NS + 20_000, ORIGIN_NS + 30_000, "steps"),
    ]
    shown = with_track(trace, periods)
    names = [shown.event_name(event) for event in range(3)]
    assert names == ["outer", "opscope: no operators (budget)", "aten::mm"]
    assert shown.events["parent"].tolist() == [-1, -1, 0]
    threads = shown.table("threads")
    assert LINE in [shown.names[row] for row in threads["name"].tolist()]
    assert time_kind(names[1]) is TimeKind.RECORDING
    listed = [
        row["name"]
        for row in find_top_operators(period_of(shown), sort_by=DEFAULT_SORT, row_limit=-1).rows
    ]
    assert "aten::mm" in listed
    assert names[1] not in listed
