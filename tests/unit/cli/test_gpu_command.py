"""``opscope gpu`` prints how busy devices are and why not, and says what was not recorded."""

import csv
import io
import json

import pytest
from tests.support.build_trace import allocation, build_trace, kernel, span

from opscope.trace.codes import EventKind


@pytest.fixture
def of_gpu(tmp_path):
    calls = [
        span("nn.Module: Net_0", 0, 60, kind=EventKind.MODULE_CALL, module="Net"),
        span("aten::mm", 5, 50),
        span("cudaLaunchKernel", 10, 12, kind=EventKind.RUNTIME_CALL),
        span("cudaLaunchKernel", 40, 42, kind=EventKind.RUNTIME_CALL),
        span("cudaLaunchKernel", 70, 72, kind=EventKind.RUNTIME_CALL),
    ]
    gpu = [
        kernel("gemm", 14, 20, launch=2),
        kernel("ncclDevKernel_AllReduce", 45, 60, launch=3),
        kernel("nobody's", 75, 100, launch=4),
    ]
    cuda = {"device_type": 1, "device_index": 0}
    held = [allocation(1, 100, total_reserved_bytes=400, **cuda)]
    build_trace(calls, gpu=gpu, allocations=held).save(tmp_path / "gpu.opscope")
    return tmp_path / "gpu.opscope"


def test_a_table(command_line, of_gpu):
    done = command_line("gpu", of_gpu, "--period", "all")
    assert done.code == 0
    for text in ("CUDA 0", "busy", "communicating", "launch-bound", "stream 7", "3 launches wait"):
        assert text in done.out
    assert "work without an owner" in done.out
    assert "400 B reserved" in done.out
    assert "Net" in done.out
    assert "occupancy is not known" in done.err
    assert "CUDA 0 is idle" in done.err


def test_json(command_line, of_gpu):
    found = json.loads(command_line("gpu", of_gpu, "--period", "all", "--format", "json").out)
    (device,) = found["devices"]
    assert (device["busy_ns"], device["without_owner"]) == (46_000, 1)
    assert sum(device["idle_ns"].values()) == found["wall_ns"] - device["busy_ns"]


def test_markdown(command_line, of_gpu):
    done = command_line("gpu", of_gpu, "--period", "all", "--format", "md")
    assert done.out.startswith("| Of | What |")


def test_csv_has_the_numbers_of_json(command_line, of_gpu):
    done = command_line("gpu", of_gpu, "--period", "all", "--format", "csv", "--row-limit", "0")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    found = json.loads(command_line("gpu", of_gpu, "--period", "all", "--format", "json").out)
    (device,) = found["devices"]

    def value(quantity, **of):
        keys = {"device": "cuda:0", "stream": "", "module": "", **of, "quantity": quantity}
        (row,) = [row for row in rows if row.items() >= keys.items()]
        return float(row["value"])

    assert value("busy_ns") == device["busy_ns"]
    assert value("idle_ns: launch-bound") == device["idle_ns"]["launch-bound"]
    assert value("delay_median_ns", stream="7") == device["streams"][0]["delay_median_ns"]
    assert value("peak_reserved_bytes") == 400
    assert value("wall_ns", device="") == found["wall_ns"]
    assert [row for row in rows if row["module"]]
    assert device["occupancy"] is None and not [
        row for row in rows if row["quantity"] == "occupancy"
    ]


def test_fewer_modules(command_line, of_gpu):
    done = command_line("gpu", of_gpu, "--period", "all", "--row-limit", "0")
    assert "modules" not in done.out
    assert "1 more modules" in done.err


def test_without_device_work_it_says_so(command_line, trace_folder):
    done = command_line("gpu", trace_folder)
    assert (done.code, done.out) == (0, "")
    assert "no device work was recorded" in done.err
