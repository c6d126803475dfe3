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


def test_json(command_line, of_gpu):
    found = json.loads(
        command_line("summary --gpu", of_gpu, "--period", "all", "--format", "json").out
    )
    (device,) = found["devices"]
    assert (device["busy_ns"], device["without_owner"]) == (46_000, 1)
    assert sum(device["idle_ns"].values()) == found["wall_ns"] - device["busy_ns"]


def test_markdown(command_line, of_gpu):
    done = command_line("summary --gpu", of_gpu, "--period", "all", "--format", "md")
    assert done.out.startswith("| Of | What |")


def test_csv_has_the_numbers_of_json(command_line, of_gpu):
    done = command_line(
        "summary --gpu", of_gpu, "--period", "all", "--format", "csv", "--row-limit", "0"
    )
    rows = list(csv.DictReader(io.StringIO(done.out)))
    found = json.loads(
        command_line("summary --gpu", of_gpu, "--period", "all", "--format", "json").out
    )
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
    done = command_line("summary --gpu", of_gpu, "--period", "all", "--row-limit", "0")
    assert "modules" not in done.out
    assert "1 more modules" in done.err


def test_modules_with_most_time_come_first(command_line, tmp_path):
    calls, work = [span("nn.Module: Net_0", 0, 100, kind=EventKind.MODULE_CALL, module="Net")], []
    for number, (name, took) in enumerate([("a", 1), ("b", 30), ("c", 5)]):
        at = 1 + 30 * number
        calls += [
            span(f"nn.Module: {name}", at, at + 20, kind=EventKind.MODULE_CALL, module=name),
            span("cudaLaunchKernel", at + 2, at + 4, kind=EventKind.RUNTIME_CALL),
        ]
        work.append(kernel("gemm", 200 + at, 200 + at + took, launch=len(calls) - 1))
    build_trace(calls, gpu=work).save(tmp_path / "gpu.opscope")
    at_most = ("summary --gpu", tmp_path / "gpu.opscope", "--period", "all", "--row-limit", "3")
    csv_rows = csv.reader(io.StringIO(command_line(*at_most, "--format", "csv").out))
    by_name = list(dict.fromkeys(row[2] for row in csv_rows if row[2] not in ("", "module")))
    shown = command_line(*at_most, "--format", "md").out
    found = [line.split("|")[2].strip() for line in shown.splitlines() if "modules" in line]
    assert found == [by_name[0], by_name[2], by_name[3]]
    assert by_name == sorted(by_name)


def test_without_device_work_it_says_so(command_line, trace_folder):
    done = command_line("summary --gpu", trace_folder)
    assert (done.code, done.out) == (0, "")
    assert "no device work was recorded" in done.err


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


def test_where_no_process_has_a_device_that_is_said_of_all(command_line, tmp_path):
    for rank in range(2):
        build_trace([span("aten::mm", 0, 10)]).save(tmp_path / "job", rank=rank)
    done = command_line("summary --gpu", tmp_path / "job")
    assert (done.code, done.out.strip()) == (0, "")
    assert "all 2 processes: no device work was recorded" in done.err
