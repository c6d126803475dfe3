"""Which ranks of its job a trace was read without."""

import pytest

import opscope
from opscope.report.payload import run_section
from opscope.storage.job import missing_ranks
from support.build_trace import build_trace, span

WINDOW = type("Window", (), {"start_ns": 0, "end_ns": 1})()


@pytest.fixture
def job(tmp_path):
    """Makes a folder of a job of so many ranks, of which these were written."""

    def make(size, *ranks, name="job"):
        for rank in ranks:
            save_rank(tmp_path / name, rank, size)
        return tmp_path / name

    return make


def save_rank(folder, own, size, under=None):
    info = {"distributedInfo": {"rank": own, "world_size": size}}
    ledger = {"events": {"recorded": 1}}
    build_trace([span("a", 0, 1)], metadata=info, ledger=ledger).save(folder, rank=under)


@pytest.mark.parametrize(
    ("size", "there", "said"),
    [
        (1, [0], ""),
        (2, [0, 1], ""),
        (2, [0], "rank 1 of 2 is not in this folder"),
        (3, [2], "ranks 0-1 of 3 are not in this folder"),
        (9, [1, 2, 5], "ranks 0, 3-4, 6-8 of 9 are not in this folder"),
        (40, range(0, 40, 2), "ranks 1, 3, 5, 7, 9, 11, 13, 15, ... of 40 are not in this folder"),
    ],
)
def test_they_are_named(job, size, there, said):
    trace = opscope.load(job(size, *there), rank=there[-1])
    assert missing_ranks(trace.ledger) == said
    assert trace.ledger["events"] == {"recorded": 1.0}


def test_the_ledger_the_report_and_the_notebook_say_it(job):
    trace = opscope.load(job(2, 1))
    ranks = trace.ledger["ranks of the job"]
    assert ranks == {"in all": 2.0, "not in this folder: 0": 1.0}
    said = "rank 0 of 2 is not in this folder"
    assert ["job", said] in run_section(trace, trace.metadata, WINDOW)["machine"]
    assert said in trace._repr_html_()


def test_nothing_is_reported_of_traces_side_by_side_of_one_folder_and_of_processes(job, tmp_path):
    for number in (3, 5):
        save_rank(tmp_path / "t", 0, 8, number)
        build_trace([span("aten::mm", 0, 10)]).save(tmp_path / "processes", process=number)
    for trace in (
        opscope.load(tmp_path / "t", rank=5),
        opscope.load(job(2, 0) / "rank=00000"),
        opscope.load(tmp_path / "processes", process=5),
    ):
        assert missing_ranks(trace.ledger) == ""
