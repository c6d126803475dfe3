"""Times that cannot be true beside those around them."""

import json

import pytest

from opscope import load_trace
from opscope.columns.ledger import DOUBTFUL
from opscope.storage.chrome.plausibility import (
    FAR_AWAY,
    LEFT_OUT,
    OVERRUN,
    TOO_LONG_SPANS,
    TOO_LONG_WORK,
)
from opscope.timeline.doubts import doubts
from support.chrome_files import names, op

BEGIN = 6_107_543_211_234.5


@pytest.fixture
def read(tmp_path):
    def load(events):
        (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
        return load_trace(tmp_path / "t.json")

    return load


def launched(i, begin, dur, **more):
    return [
        op("aten::mm", BEGIN + 100 * i, 20),
        op("cudaLaunchKernel", BEGIN + 100 * i + 2, 5, cat="cuda_runtime", correlation=i + 1),
        {**op("gemm", BEGIN + begin, dur, tid=7, cat="kernel", correlation=i + 1, device=0,
              stream=7), "pid": 0, **more},
    ]  # fmt: skip


def sound(count=10):
    return [event for i in range(count) for event in launched(i, 100 * i + 10, 80)]


@pytest.mark.parametrize("of", [[3], [3, 4, 5, 6], list(range(27)), [5, 8, 11]])
def test_rows_without_a_time_are_left_out_and_counted(read, of):
    events = sound()
    for row in of:
        events[row] |= {"ts": 0, "dur": 0}

    trace = read(events)

    assert trace.ledger[DOUBTFUL][LEFT_OUT] == len(of)
    assert f"{len(of)} of 30 {LEFT_OUT}" in doubts(trace)[0]
    assert len(trace.events) + len(trace.table("gpu")) == 30 - len(of)
    if len(trace.events):
        assert int(trace.end_ns.max() - trace.events["start_ns"].min()) < 1_000_000


@pytest.mark.parametrize("time", [1.0, BEGIN * 100, -BEGIN, BEGIN - 9e10])
def test_rows_of_another_clock_are_left_out(read, time):
    events = sound()
    events[4]["ts"] = time
    trace = read(events)
    assert trace.ledger[DOUBTFUL][LEFT_OUT] == 1
    assert len(trace.events) == 19


def test_what_belongs_to_a_row_goes_with_it(read):
    shapes = {"Input type": ["float"], "Input Dims": [[2]], "Input Strides": [[1]]}
    events = sound()
    events[0]["args"], events[3]["args"] = dict(shapes), dict(shapes)
    events[0] |= {"ts": 0, "dur": 0}
    trace = read(events)
    assert trace.table("tensors")["event"].tolist() == [names(trace).index("aten::mm", 1)]


def test_a_pause_in_a_program_is_no_other_clock_and_a_long_one_is_reported(read):
    trace = read([*sound(), op("later", BEGIN + 5e6, 3)])
    assert names(trace)[-1] == "later" and DOUBTFUL not in trace.ledger
    trace = read([*sound(), op("later", BEGIN + 3e8, 3)])
    assert names(trace)[-1] == "later"
    assert doubts(trace) == [f"1 of 31 {FAR_AWAY}, by up to 300 s"]


def test_a_file_that_begins_at_0_loses_nothing(read):
    trace = read([op("first", 0, 0), op("second", 1, 5), op("third", 400, 5)])
    assert names(trace) == ["first", "second", "third"]
    assert DOUBTFUL not in trace.ledger


def test_a_span_longer_than_its_file_is_cut_and_unfinished(read):
    events = sound()
    events[3]["dur"] = 1e14
    trace = read(events)
    assert trace.ledger[DOUBTFUL][TOO_LONG_SPANS] == 1
    assert trace.events["unfinished"].sum() == 1
    assert int(trace.end_ns.max() - trace.events["start_ns"].min()) < 1_000_000


def test_work_longer_than_its_stream_allows_is_cut(read):
    events = sound()
    events[5]["dur"] = 1.6e6
    trace = read(events)
    assert trace.table("gpu")["duration_ns"].max() == 100_000
    assert doubts(trace) == [f"1 of 10 {TOO_LONG_WORK}, by up to 1.60 s"]
    assert trace.device_use("all").devices[0].busy_ns < 1_000_000
    assert TOO_LONG_WORK in trace.device_use("all").about


@pytest.mark.parametrize("more", [{"graph id": 3}, {"graph node id": 4}, {"stream": 8}])
def test_what_may_go_on_beside_others_is_not_cut(read, more):
    events = sound()
    events[5]["dur"] = 1.6e6
    events[5]["args"] |= more
    trace = read(events)
    assert trace.table("gpu")["duration_ns"].max() == 1_600_000_000


@pytest.mark.parametrize("lasts, is_said", [(90_000, True), (950, True), (550, False)])
def test_an_operator_that_outlasts_what_called_it_is_reported(read, lasts, is_said):
    others = [op("x", 2e5 + i, 1) for i in range(9)]
    trace = read([op("outer", 0, 1000), op("inner", 500, lasts), *others])
    assert (trace.ledger.get(DOUBTFUL, {}).get(OVERRUN) == 1) is is_said


def test_launches_without_work_are_reported_where_they_are_many(read):
    kernels = [event for event in sound() if event["cat"] != "kernel"]
    assert "10 of 10 launches have no device activity in the file" in doubts(read(kernels))[0]
    begin = op("cudaStreamBeginCapture", BEGIN - 5, 1, cat="cuda_runtime")
    end = op("cudaStreamEndCapture", BEGIN + 5000, 1, cat="cuda_runtime")
    assert doubts(read([begin, *kernels, end])) == []
    assert doubts(read(sound()[:-1])) == []


def test_a_number_that_two_launches_have_is_resolved_by_time(read):
    events = sound(2)
    for event in events[3:]:
        if "correlation" in event["args"]:
            event["args"]["correlation"] = 1
    trace = read(events)
    calls = [i for i, name in enumerate(names(trace)) if name == "cudaLaunchKernel"]
    assert trace.table("gpu")["launch"].tolist() == calls
    assert "1 of 2 launches share a number" in doubts(trace)[0]


def test_an_end_before_its_begin_is_counted(read):
    def mark(phase, ts):
        return {"ph": phase, "cat": "cpu_op", "name": "a", "ts": ts, "pid": 1, "tid": 1}

    trace = read([mark("B", 20), mark("E", 10)])
    assert doubts(trace) == ["1 spans end before they begin, and have duration 0"]


@pytest.mark.parametrize(("row", "what"), [(0, "operators"), (29, "device activities")])
def test_what_computes_long_after_all_else_is_reported(read, row, what):
    events = sound()
    events[row]["dur"] = 3.6e9
    assert doubts(read(events)) == [f"1 of 10 {what} end long after all others, by up to 3600 s"]


def test_memory_without_a_size_is_reported(read):
    size = {"Bytes": 1 << 63, "Addr": 1, "Device Type": 1, "Device Id": 0}
    memory = {"ph": "i", "name": "[memory]", "pid": 9, "tid": 1, "ts": BEGIN + 3, "args": size}
    trace = read([*sound(), memory])
    assert doubts(trace)[0].startswith("1 of 1 memory events have a missing")


def test_an_allocation_that_no_process_has_addresses_for_is_left_out(read):
    size = {"Bytes": 10**15, "Addr": 1, "Device Type": 1, "Device Id": 0}
    memory = {"ph": "i", "name": "[memory]", "pid": 9, "tid": 1, "ts": BEGIN + 3, "args": size}
    usual = {**memory, "args": {**size, "Bytes": 1000}}
    trace = read([*sound(), memory, usual])
    assert trace.table("allocations")["size_bytes"].tolist() == [1000]
    assert doubts(trace)[0].startswith("1 of 2 allocations are ignored")


def test_work_before_its_launch_is_reported(read):
    events = sound()
    events[5]["ts"] -= 500
    assert "1 of 10 device activities begin before their launch" in doubts(read(events))[0]
