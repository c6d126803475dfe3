"""``opscope summary --gpu`` prints how busy devices are, and says what was not recorded."""

import csv
import io
import json

import pytest
from tests.support.build_trace import allocation, build_trace, kernel, span

from opscope.columns.codes import EventKind


def gpu_trace(communication_us=15):
    """After the first kernel, a collective that ends at 60 µs."""
    calls = [
        span("nn.Module: Net_0", 0, 60, kind=EventKind.MODULE_CALL, module="Net"),
        span("aten::mm", 5, 50),
        span("cudaLaunchKernel", 10, 12, kind=EventKind.RUNTIME_CALL),
        span("cudaLaunchKernel", 40, 42, kind=EventKind.RUNTIME_CALL),
        span("cudaLaunchKernel", 70, 72, kind=EventKind.RUNTIME_CALL),
    ]
    gpu = [
        kernel("gemm", 14, 20, launch=2),
        kernel("ncclDevKernel_AllReduce", 60 - communication_us, 60, launch=3),
        kernel("nobody's", 75, 100, launch=4),
    ]
    cuda = {"device_type": 1, "device_index": 0}
    held = [allocation(1, 100, total_reserved_bytes=400, **cuda)]
    return build_trace(calls, gpu=gpu, allocations=held)


@pytest.fixture
def of_gpu(tmp_path):
    gpu_trace().save(tmp_path / "gpu.opscope")
    return tmp_path / "gpu.opscope"


def test_a_table(command_line, of_gpu):
    done = command_line("summary --gpu", of_gpu, "--period", "all")
    assert done.code == 0
    for text in (
        "CUDA 0",
        "busy",
        "communicating",
        "launch-bound",
        "stream 7",
        "3 launches, delay",
    ):
        assert text in done.out
    assert "work without operator or module" in done.out
    assert "400 B reserved" in done.out
    assert "Net" in done.out
    assert "occupancy is unknown" in done.err
    assert "CUDA 0 is idle" in done.err


def test_csv_has_the_numbers_of_json(command_line, of_gpu):
    done = command_line(
        "summary --gpu", of_gpu, "--period", "all", "--format", "csv", "--row-limit", "0"
    )
    rows = list(csv.DictReader(io.StringIO(done.out)))
    found = json.loads(
        command_line("summary --gpu", of_gpu, "--period", "all", "--format", "json").out
    )
    (device,) = found["devices"]
    assert (device["busy_ns"], device["without_owner"]) == (46_000, 1)
    assert sum(device["idle_ns"].values()) == found["wall_ns"] - device["busy_ns"]

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


@pytest.fixture
def job(tmp_path):
    """Rank 1 communicates less than the others and is idle for longer; rank 4 has no device."""
    for rank in range(4):
        gpu_trace(5 if rank == 1 else 15).save(tmp_path / "job", rank=rank)
    build_trace([span("aten::mm", 0, 100)]).save(tmp_path / "job", rank=4)
    return tmp_path / "job"


def test_of_a_job_all_are_shown_and_which_differs(command_line, job):
    done = command_line("summary --gpu", job, "--period", "all")
    assert done.code == 0
    rows = [[c.strip() for c in line.split("  ") if c.strip()] for line in done.out.splitlines()]
    assert rows[0][-5:] == ["Busy", "Computing", "Exposed", "Copies", "Idle"]
    assert rows[1][:2] == ["rank 0", "CUDA 0"]
    assert rows[1][-5:] == ["46%", "31%", "15%", "0.0%", "54%"]
    assert rows[2][-5:] == ["36%", "31%", "5.0%", "0.0%", "64%"]
    assert ["busy: 36% in rank 1, 46% in the median of 4."] in rows
    assert ["exposed communication: 5.0% in rank 1, 15% in the median of 4."] in rows
    assert "rank 4" not in done.out
    assert "rank 4: no device work was recorded" in done.err
    assert "ranks 0-3: occupancy is unknown" in done.err
    assert done.out.count("launch-bound: The host called operators") == 1
