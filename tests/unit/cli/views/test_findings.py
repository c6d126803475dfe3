"""The lines that a run ends with: the verdict."""

import re

from opscope.analysis.account.find import find_account
from opscope.cli.views.findings import headline
from opscope.cli.views.operator_table import describe_period
from opscope.cli.why import Why, result_of
from opscope.columns.metadata_kinds import OVER
from opscope.columns.schema import EventKind
from opscope.findings.find import find_findings
from opscope.findings.verdict import find_verdict
from opscope.timeline import typical_stretch
from opscope.timeline.period import period_of
from support.build_trace import ORIGIN_NS, build_trace, span
from support.repeat_trace import repeat_trace

LOADING = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def waiting(start, end, thread="main"):
    return span(LOADING, start, end, thread=thread, kind=EventKind.ANNOTATION)


def test_waiting_for_threads_that_work_is_not_where_the_time_went():
    trace = build_trace(
        [waiting(0, 1000), span("aten::mm", 0, 950, thread="worker"), span("aten::add", 1000, 1010)]
    )
    assert headline(trace)[1].startswith("most time: aten::mm 94%")


def test_what_python_does_at_its_end_is_left_out():
    trace = build_trace([span("aten::mm", 0, 100), span("_exitfunc", 200, 900)])
    said = "most time: _exitfunc 78%, aten::mm 11% of the recording, 900 µs"
    assert headline(trace)[1] == said
    over = trace.with_metadata({OVER: ORIGIN_NS + 150_000})
    assert headline(over)[1].startswith("most time: aten::mm 100% of the ")
    assert headline(over)[1].endswith("(besides 750 µs after its end)")


def test_of_what_takes_long_a_stretch_is_judged(monkeypatch):
    monkeypatch.setattr(typical_stretch, "SAMPLE_EVENTS", 5_000)
    one = build_trace([span("aten::mm", at, at + 9) for at in range(0, 1000, 10)])
    said = headline(repeat_trace(one, 300, 1_000_000))
    assert said[0].startswith("verdict: ")
    assert re.search(r"aten::mm \d+% of the steady state, [\d.]+ ms of 300 ms", said[1])


def test_what_was_dropped_is_reported_where_the_shares_are():
    ledger = {"events": {"requested": 4.0, "recorded": 2.0, "dropped: memory budget": 2.0}}
    trace = build_trace([span("aten::mm", 0, 10), span("aten::mm", 10, 20)], ledger=ledger)
    said = "DROPPED: 2 (memory budget)"
    assert [said in line for line in headline(trace)[:2]] == [False, True]
    assert any(said in line for line in describe_period(period_of(trace)))
    why = Why(find_account(trace), find_findings(trace), {}, find_verdict(trace))
    assert said in result_of(why).sections[1].above[0]
