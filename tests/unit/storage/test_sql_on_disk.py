"""SQL over several processes: the rows of all, each with its process, joined within it."""

import pytest

import opscope
from opscope.errors import TraceFormatError, UsageError
from opscope.storage.partition import partition_folders
from opscope.storage.sql_on_disk import query_several, tables_of
from support.build_trace import allocation, build_trace, span, tensor


@pytest.fixture
def job(tmp_path):
    """Two ranks that call different operators, and a process without a rank and without memory."""
    names = {0: ("aten::mm", "aten::add"), 1: ("aten::add", "aten::relu", "aten::mm")}
    for rank, called in names.items():
        spans = [
            span(name, 10 * at, 10 * at + 5, inputs=[tensor(2, 3)])
            for at, name in enumerate(called)
        ]
        ledger = {"events": {"recorded": len(spans)}}
        trace = build_trace(
            spans, allocations=[allocation(1, 64)], ledger=ledger, metadata={"rank": rank}
        )
        trace.save(tmp_path / "job", rank=rank)
    build_trace([span("aten::exp", 0, 5)]).save(tmp_path / "job", process=77)
    return tmp_path / "job"


def ask(job, statement, read_only=False):
    parts = {part: tables_of(folder) for part, folder in partition_folders(job).items()}
    return query_several(parts, statement, read_only).fetchall()


def test_each_process_alone_says_the_same(job):
    """The sums of the union are those of what is asked of one after the other."""
    statement = "select {} name, count(*), sum(duration_us) from named_events group by all"
    together = {
        row[0:2]: row[2:]
        for row in ask(job, statement.format("coalesce(rank, process) as number,"))
    }
    for which in ({"rank": 0}, {"rank": 1}, {"process": 77}):
        (number,) = which.values()
        for name, *sums in opscope.load(job, **which).sql(statement.format("")).fetchall():
            assert together.pop((number, name)) == tuple(sums)
    assert not together


def test_one_process_is_read_and_no_other(job):
    """A condition on the process keeps the files of others closed."""
    damaged = job / "rank=00001" / "events.parquet"
    whole = damaged.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    damaged.write_bytes(whole[:4] + bytes(footer - 4) + whole[footer:])  # no page of it is readable
    assert ask(job, "select count(*), max(start_ns) > 0 from events where rank = 0") == [(2, True)]
    with pytest.raises(UsageError, match=r"failed on a row|does not run"):
        ask(job, "select max(start_ns) from events")


def test_a_damaged_file_is_named(job):
    damaged = job / "rank=00001" / "events.parquet"
    whole = damaged.read_bytes()
    for left in (whole[:100], None):
        damaged.unlink() if left is None else damaged.write_bytes(left)
        with pytest.raises(TraceFormatError, match=r"rank=00001/events\.parquet is damaged"):
            ask(job, "select count(*) from events")


def test_nothing_else_can_be_reached_where_that_is_asked(job):
    assert ask(job, "select count(*) from events", read_only=True) == [(6,)]
    with pytest.raises(UsageError, match="does not run"):
        ask(job, "select nothing from nowhere")
    with pytest.raises(UsageError, match="is not permitted"):
        ask(job, f"select * from '{job}/rank=00000/events.parquet'", read_only=True)
