"""Devices in the page: the numbers of ``opscope summary --gpu``, and what is left out is said."""

import pytest

from opscope.analysis.device_use.device_use import find_device_use
from opscope.columns.schema import EventKind
from opscope.report import device_section as sections
from opscope.report.device_section import device_section
from opscope.timeline.period import Which
from support.build_trace import build_trace, kernel, span


@pytest.fixture
def trace():
    launches = [span("cudaLaunchKernel", 10 * i + 1, 10 * i + 2, kind=EventKind.RUNTIME_CALL)
                for i in range(6)]  # fmt: skip
    work = [kernel("gemm", 10 * i + 4, 10 * i + 7, launch=i + 1, stream=i % 3) for i in range(6)]
    return build_trace([span("aten::mm", 0, 100), *launches], gpu=work)


def test_it_says_what_opscope_gpu_says(trace):
    found = find_device_use(trace, Which.ALL)
    section = device_section(trace, Which.ALL)
    (device,), (shown,) = found.devices, section["devices"]
    assert section["wall"] == found.wall_ns
    assert (shown["name"], shown["work"], shown["busy"]) == ("CUDA 0", 6, device.busy_ns)
    assert sum(one["time"] for one in shown["idle"]) + shown["busy"] == found.wall_ns
    assert {one["name"]: one["time"] for one in shown["idle"]} == {
        cause.title: time_ns for cause, time_ns in device.idle_ns.items()
    }
    assert shown["parts"] == [{"name": "computing", "time": device.computing_ns, "detail": ""}]
    assert shown["sentences"][0] == found.advice()["cuda:0"]
    assert len(shown["streams"]["rows"]) == 3
    assert all(len(row) == len(shown["streams"]["heading"]) for row in shown["streams"]["rows"])
    assert section["notes"] == list(found.notes)


def test_work_without_a_launch_has_no_delay():
    trace = build_trace([span("aten::mm", 0, 100)], gpu=[kernel("gemm", 4, 7, launch=-1)])
    (shown,) = device_section(trace, Which.ALL)["devices"]
    assert shown["streams"]["rows"][0][3:] == ["not known", "", "", "", "", ""]
    assert "The launch of 1 activities is unknown." in shown["sentences"]


def test_many_streams_are_cut_and_that_is_reported(trace, monkeypatch):
    monkeypatch.setattr(sections, "MOST_STREAMS", 2)
    (shown,) = device_section(trace, Which.ALL)["devices"]
    assert len(shown["streams"]["rows"]) == 2
    assert shown["sentences"][-1] == "The 2 busiest streams are shown; 1 more are not."
