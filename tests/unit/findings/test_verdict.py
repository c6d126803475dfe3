"""The verdict: one status, from findings where there is one worth fixing, else from the causes."""

import json

import pytest

from opscope.columns.causes import Cause
from opscope.columns.codes import WaitsFor
from opscope.columns.metadata_kinds import DETAIL
from opscope.columns.schema import EventKind
from opscope.findings.job_verdict import job_verdict
from opscope.findings.status import Status
from opscope.findings.verdict import Verdict, find_verdict
from support.build_trace import build_trace, span
from support.thread_samples import sampled

LOADING = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def products(count=20, took=90, apart=100):
    return [span("aten::mm", i * apart, i * apart + took) for i in range(count)]


def waits_before_work(name):
    return [
        one
        for begin in range(0, 5000, 1000)
        for one in (
            span(name, begin, begin + 900, kind=EventKind.ANNOTATION),
            span("aten::mm", begin + 900, begin + 1000),
        )
    ]


def test_work_is_healthy():
    found = find_verdict(build_trace(products()))
    assert found.status is Status.HEALTHY and not found.title and found.gain_ns is None
    assert found.most[0][0] == "aten::mm" and found.lines()[0].startswith("verdict: healthy")
    assert len(found.lines()) <= 4
    assert json.loads(json.dumps(found.as_dict()))["status"] == "healthy"
    assert all(isinstance(value, float) for value in found.metrics().values())
    assert found.metrics()["is_healthy"] == 1.0 and found.metrics()["gain_share"] == 0
    shares = {name for name in found.metrics() if name.startswith("share_")}
    assert shares == {f"share_{cause.name.lower()}" for cause in Cause}, "of every run the same"


def test_a_loader_that_is_waited_for_is_the_status():
    found = find_verdict(build_trace(waits_before_work(LOADING)))
    assert found.status is Status.DATA_LOADING and found.gain_share > 0.5


def python_between_products(*gaps_ms, product_ms=98, name="aten::mm"):
    """Python of the program between products."""
    call, spans, at = {"kind": EventKind.PYTHON_CALL, "frame": ("train.py", 1, "train")}, [], 0
    for gap_ms in gaps_ms:
        spans.append(span(name, at, at + product_ms * 1000))
        at += int((product_ms + gap_ms) * 1000)
    return build_trace([span("train", 0, at, **call), *spans])


def test_waits_for_a_processor_were_where_an_interval_is_longer_than_usual():
    """The kernel counted 92 % of waiting; Python of two milliseconds in each round is no wait."""
    rows = ((0, 0, 0), (1_000, 80, 920))
    samples = [(1001, *row, 0, WaitsFor.NOTHING) for row in rows]
    regular = find_verdict(sampled(python_between_products(*[2] * 10), *samples))
    assert regular.status is Status.PYTHON and regular.gain_share == pytest.approx(0.24, abs=0.02)
    for name in ("aten::mm", "aten::broadcast_tensors"):
        rare = python_between_products(20, *[0.02] * 9, name=name)
        once = find_verdict(sampled(rare, *samples))
        assert once.status is Status.BUSY and not once.title
    assert find_verdict(python_between_products(*[2] * 10)).status is Status.HEALTHY


@pytest.mark.parametrize(("delayed_ms", "status"), [(0, Status.WAITING), (600, Status.BUSY)])
def test_a_pause_leads_only_by_its_share_of_all_time(delayed_ms, status):
    trace = build_trace("aten::a 0..10000\naten::b 990000..1000000")
    rows = ((0, 0, WaitsFor.NOTHING), (500, delayed_ms / 2, WaitsFor.TIMER),
            (990, delayed_ms, WaitsFor.TIMER), (1_000, delayed_ms, WaitsFor.NOTHING))  # fmt: skip
    computed = {0: 0, 500: 100, 990: 150, 1_000: 160}
    found = find_verdict(
        sampled(trace, *((1001, at, computed[at], waited, 0, kind) for at, waited, kind in rows))
    )
    assert found.status is status


@pytest.mark.parametrize(
    ("kind", "status"),
    [(WaitsFor.READINESS, Status.HEALTHY), (WaitsFor.TRANSFER, Status.WAITING)],
)
def test_a_service_without_requests_is_healthy_and_one_that_reads_waits(kind, status):
    trace = build_trace("aten::a 0..10000\naten::b 990000..1000000")
    rows = ((0, 0, WaitsFor.NOTHING), (500, 10, kind), (990, 10, kind), (1_000, 20, kind))
    found = find_verdict(sampled(trace, *((1001, at, ran, 0, 0, what) for at, ran, what in rows)))
    assert found.status is status


def test_waiting_for_other_ranks_outweighs_small_findings():
    found = find_verdict(build_trace(waits_before_work("gloo:all_reduce")))
    assert found.status is Status.COMMUNICATION and found.next == "opscope ranks"


def test_what_says_nothing_of_operators_cannot_tell():
    found = find_verdict(build_trace(""))
    assert found.status is Status.TOO_LITTLE and "no operator" in found.unsure[0]
    assert not found.status.is_decided


@pytest.mark.parametrize(("threads", "status"), [(20, Status.TOO_LITTLE), (1, Status.HEALTHY)])
def test_a_thread_for_each_request_is_no_healthy_program(threads, status):
    spans = [
        span("aten::mm", 1_000 * i, 1_000 * i + 990, thread=f"t{i // 40 % threads}")
        for i in range(800)
    ]
    found = find_verdict(build_trace(spans))
    assert found.status is status
    assert any("20 short-lived threads" in doubt for doubt in found.unsure) == (threads > 1)


def test_it_is_made_once_and_of_an_object_that_nothing_changes():
    trace = build_trace(products())
    assert trace.verdict() is find_verdict(trace)
    with pytest.raises(AttributeError):
        trace.verdict().share = 1.0


def test_at_most_four_lines():
    everything = Verdict(
        status=Status.PYTHON, title="t", share=0.5, line="x", fix="f.", gain_ns=1, gain_share=0.1,
        most=(("aten::mm", 0.5),), about="recording", others=3, not_looked_for=("a",),
    )  # fmt: skip
    assert len(everything.lines()) == 4


@pytest.mark.parametrize(("is_in_detail", "command"), [(False, "run"), (True, "run --why")])
def test_it_names_the_command_that_records_what_was_not_looked_for(is_in_detail, command):
    detail = {DETAIL: {"options": {}, "stretches": []}} if is_in_detail else {}
    trace = build_trace(products()).with_metadata({"options": {}, **detail})
    assert find_verdict(trace).lines()[-1].endswith(f"more recorded data: opscope {command}")


def test_a_job_without_a_slow_rank_is_judged_by_one_of_its_ranks():
    of_one = find_verdict(build_trace(products()))
    found = job_verdict((), lambda: of_one, "rank 0")
    assert found.status is Status.HEALTHY and found.about.endswith("of rank 0")
