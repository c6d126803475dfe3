"""``opscope summary --roofline`` prints what operators reach, and what the machine can do."""

import json

import pytest

from opscope.analysis.roofline import peaks as peaks_module
from support.build_trace import build_trace, span, tensor

pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def plain_machine(monkeypatch, tmp_path):
    monkeypatch.setenv("OPSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(peaks_module, "_best_of_threads", lambda *_: 1e9)


@pytest.mark.parametrize(("format", "begins"), [("csv", "operator,calls"), ("md", "| Operator |")])
def test_other_formats(command_line, trace_folder, format, begins):
    done = command_line("summary --roofline", trace_folder, "--format", format, "--measure")
    assert done.out.startswith(begins)


@pytest.fixture
def job(tmp_path):
    """Rank 2 takes five times as long for the same; rank 4 has no shapes, another nothing known."""
    for rank in range(4):
        took = 100 if rank == 2 else 20
        spans = [span("aten::mm", 0, took, inputs=[tensor(20, 30), tensor(30, 10)])]
        build_trace(spans).save(tmp_path / "job", rank=rank)
    build_trace([span("aten::mm", 0, 10)]).save(tmp_path / "job", rank=4)
    sorting = span("aten::sort", 0, 10, inputs=[tensor(9)])
    build_trace([sorting]).save(tmp_path / "job", process=4242)
    return tmp_path / "job"


def cells(line):
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_of_a_job_all_are_shown_and_which_differs(command_line, job):
    done = command_line("summary --roofline", job)
    assert done.code == 0
    lines = done.out.splitlines()
    # 12,000 FLOP at 1 GFLOP/s are 12 µs.
    assert cells(lines[1]) == [
        "rank 0", "aten::mm 8.00 µs", "computing", "20.0 µs", "100%", "60%", "8.00 µs",
    ]  # fmt: skip
    assert cells(lines[3])[0] == "rank 2" and cells(lines[3])[-2:] == ["12%", "88.0 µs"]
    assert cells(lines[5]) == ["process 4242", "--", "--", "10.0 µs", "0.0%", "--", "--"]
    assert "reached: 12% in rank 2, 60% in the median of 4." in lines
    assert "rank 4" not in done.out
    assert "rank 4: Argument shapes were not recorded" in done.err
    assert "1 GFLOP/s in float32" in done.err


def test_all_ranks_are_compared_with_the_same_machine(command_line, job, monkeypatch):
    measured = []

    def best(torch, rate, of):
        measured.append(of)
        return 1e9 * len(measured)

    monkeypatch.setattr(peaks_module, "_best_of_threads", best)
    monkeypatch.setattr(peaks_module.time, "process_time", lambda: 0.0)  # so that nothing is kept
    together = json.loads(command_line("summary --roofline", job, "--format", "json").out)
    assert measured.count("float32") == 1
    ranks = [one["peaks"] for one in together["processes"]]
    assert all(peaks == ranks[0] for peaks in ranks)
