"""Traces on disk: what is saved comes back, other programs read it, bad folders say what to do."""

import os
import shutil
import sys
from importlib import import_module
from pathlib import Path

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opscope
from opscope import load_trace
from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.columns.schema import SCHEMA_VERSION, TABLES
from opscope.errors import InsufficientMemoryError, TraceFormatError, UsageError
from opscope.recording.streams.load import load_trace as load_process
from opscope.storage import interop, parquet, store
from opscope.storage.manifest import rank_folders, read_manifest
from opscope.storage.partition import RANK, Partition
from opscope.storage.store import _LIBRARIES_BYTES, _POOLS_BYTES, save_part
from support.build_trace import build_trace, span, tensor
from support.random_trace import assert_same_table, assert_same_trace, random_trace
from support.repeat_trace import repeat_trace
from support.rewritten_trace import edit_manifest, write_table


@pytest.fixture
def small():
    """Three events, two of them in the first, with tensors."""
    return build_trace(
        [
            span("step", 0, 100),
            span("aten::mm", 10, 30, inputs=[tensor(2, 3), tensor(3, 4)], sequence_number=5),
            span("aten::mm", 40, 50, "worker"),
        ],
        metadata={"host": "h"},
        ledger={"events": {"recorded": 3}},
    )


@pytest.fixture
def saved(small, tmp_path):
    return save_part(small, tmp_path / "t")


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    most_rows=st.sampled_from([0, 1, 3, 40, 700, 5000]),
    at_once=st.booleans(),
)
def test_what_is_saved_is_loaded(seed, most_rows, at_once, tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "t"
    trace = random_trace(seed, most_rows)
    save_part(trace, path)
    with pytest.MonkeyPatch.context() as changed:
        if not at_once:  # as in long tables
            changed.setattr(parquet, "FEW_ROWS", -1)
            changed.setattr(interop, "_MIN_ROWS_TO_CHECK", 16)
        assert_same_trace(load_trace(path), trace)


def test_a_long_column_of_one_value_takes_no_room(small, tmp_path, monkeypatch):
    monkeypatch.setattr(interop, "_MIN_ROWS_TO_CHECK", 16)
    trace = repeat_trace(small, 100, 1_000_000)
    trace.save(tmp_path / "t")
    again = load_trace(tmp_path / "t")
    assert again.events["step"].strides == (0,)
    assert again.events["sequence_number"].strides != (0,)
    assert_same_trace(again, trace)
    assert_same_table(again.events.take(np.array([5, 7])), trace.events.take(np.array([5, 7])))


def test_few_events_take_little_room(small, tmp_path):
    rank = small.save(tmp_path / "t")
    assert not load_trace(tmp_path / "t").events["start_ns"].flags.writeable
    assert sum(file.stat().st_size for file in rank.iterdir()) < 9_000


def test_names_that_are_no_text_are_stored_as_they_are_shown(tmp_path):
    names = Names(np.array([0, 2, 5], dtype=np.int64), b"\xff\xfeabc")
    save_part(Trace({"events": {"name": [0, 1]}}, names), tmp_path / "t")
    assert list(load_trace(tmp_path / "t").names) == ["\ufffd\ufffd", "abc"]
    trace = Trace({"events": {"name": [0]}}, Names.from_strings(["a\ud800b"]))
    save_part(trace, tmp_path / "t")
    assert list(load_trace(tmp_path / "t").names) == list(trace.names)


@pytest.fixture
def two_ranks(small, tmp_path):
    save_part(small, tmp_path / "t", Partition(RANK, 0))
    save_part(build_trace([("other", 0, 7)]), tmp_path / "t", Partition(RANK, 1))
    return tmp_path / "t"


def test_duckdb_reads_all_ranks_as_one_table(two_ranks):
    rows = duckdb.sql(
        f"""select events.rank::int, names.text, sum(duration_ns)::int
        from '{two_ranks}/rank=*/events.parquet' as events
        join '{two_ranks}/rank=*/names.parquet' as names
          on names.id = events.name and names.rank = events.rank
        group by all order by all"""
    ).fetchall()
    assert rows == [(0, "aten::mm", 30_000), (0, "step", 100_000), (1, "other", 7_000)]


def test_every_rank_has_the_same_columns_which_pandas_and_polars_read(two_ranks):
    frame = pandas.read_parquet(two_ranks / "rank=00000/events.parquet")
    assert frame["parent"].tolist() == [-1, 0, -1]
    sizes = polars.read_parquet(two_ranks / "rank=00000/tensors.parquet")["sizes"]
    assert sizes.to_list() == [[2, 3], [3, 4]]
    schemas = [pq.read_schema(two_ranks / f"rank=0000{r}/events.parquet") for r in (0, 1)]
    assert schemas[0].equals(schemas[1])
    assert schemas[0].names == ["id", *(c.name for c in TABLES["events"].columns)]


def test_several_ranks_have_to_be_distinguished(two_ranks):
    assert sorted(rank_folders(two_ranks)) == [0, 1]
    assert load_trace(two_ranks, rank=1).event_name(0) == "other"
    assert load_trace(two_ranks / "rank=00001").event_name(0) == "other"
    with pytest.raises(UsageError, match=r"several ranks \(0, 1\).*rank=0"):
        load_process(two_ranks)
    with pytest.raises(UsageError, match="no rank 7"):
        load_process(two_ranks, rank=7)


def test_the_rank_comes_from_the_recording(tmp_path):
    for own in range(3):
        info = {"distributedInfo": {"rank": own, "world_size": 3}}
        save_part(build_trace([("a", 0, own + 1)], metadata=info), tmp_path / "t")
    assert sorted(rank_folders(tmp_path / "t")) == [0, 1, 2]
    assert load_trace(tmp_path / "t", rank=2).events["duration_ns"].tolist() == [3000]


@pytest.mark.parametrize("info", [None, [], {"rank": "x"}, {"rank": 5, "world_size": 2}])
def test_nonsense_about_the_job_means_rank_0(info, tmp_path):
    save_part(build_trace([], metadata={"distributedInfo": info}), tmp_path / "t")
    assert sorted(rank_folders(tmp_path / "t")) == [0]


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_failed_write_is_reported_and_keeps_the_earlier_trace(small, tmp_path, monkeypatch, stop):
    save_part(small, tmp_path / "t")

    def stopped(*args, **kwargs):
        raise stop

    monkeypatch.setattr(parquet.pq, "write_table", stopped)
    said = r"No space left on device.*enough space.*save again"
    is_ours = isinstance(stop, OSError)
    with pytest.raises(UsageError if is_ours else KeyboardInterrupt, match=said if is_ours else ""):
        save_part(build_trace([("new", 0, 1)]), tmp_path / "t")
    assert_same_trace(load_trace(tmp_path / "t"), small)
    assert os.listdir(tmp_path / "t") == ["rank=00000"]


def test_files_of_others_in_a_rank_are_kept(small, tmp_path, capsys):
    rank = save_part(small, tmp_path / "t")
    (rank / "NOTES.md").write_text("mine")
    (rank / "plots").mkdir()
    (rank / "plots" / "a.png").write_bytes(b"mine too")
    save_part(build_trace([("new", 0, 1)]), tmp_path / "t")
    assert (rank / "NOTES.md").read_text() == "mine"
    assert (rank / "plots" / "a.png").read_bytes() == b"mine too"
    assert not (rank / "tensors.parquet").exists()  # the new trace has none
    assert load_trace(tmp_path / "t").event_name(0) == "new"
    assert os.listdir(tmp_path / "t") == ["rank=00000"]
    assert capsys.readouterr().err == ""


def test_a_file_of_others_in_the_way_of_a_table_is_kept_by_another_name(small, tmp_path, capsys):
    rank = save_part(build_trace([("first", 0, 1)]), tmp_path / "t")
    (rank / "tensors.parquet").write_text("mine")
    save_part(small, tmp_path / "t")
    assert (rank / "tensors.parquet.earlier").read_text() == "mine"
    assert "tensors.parquet.earlier" in capsys.readouterr().err
    assert_same_trace(load_trace(tmp_path / "t"), small)


def test_files_of_others_in_a_rank_that_is_gone_are_kept(two_ranks, small, capsys):
    (two_ranks / "rank=00001" / "NOTES.md").write_text("mine")
    for _ in range(2):
        save_part(small, two_ranks)
        assert sorted(rank_folders(two_ranks)) == [0]
        kept = two_ranks / "rank=00000" / "earlier-rank=00001" / "NOTES.md"
        assert kept.read_text() == "mine"
    assert capsys.readouterr().err.count(str(kept)) == 1


def test_a_manifest_names_nothing_outside_its_folder(small, tmp_path):
    rank = save_part(small, tmp_path / "t")
    (tmp_path / "outside.parquet").write_text("mine")
    edit_manifest(rank, tables={"../../outside": {}, str(tmp_path / "outside"): {}, "events": 3})
    save_part(small, tmp_path / "t")
    assert (tmp_path / "outside.parquet").read_text() == "mine"
    assert_same_trace(load_trace(tmp_path / "t"), small)


def test_a_rank_that_is_a_link_is_replaced_and_what_it_points_to_is_not(small, tmp_path):
    elsewhere = save_part(small, tmp_path / "elsewhere")
    (tmp_path / "t").mkdir()
    (tmp_path / "t/rank=00000").symlink_to(elsewhere)
    save_part(build_trace([("new", 0, 1)]), tmp_path / "t")
    assert_same_trace(load_trace(tmp_path / "elsewhere"), small)
    assert load_trace(tmp_path / "t").event_name(0) == "new"


def test_a_rank_that_cannot_be_put_in_place_leaves_the_earlier_one(small, tmp_path, monkeypatch):
    save_part(small, tmp_path / "t")
    rename = Path.rename

    def refuse(path, target):
        if path.name.startswith(".") and (path / "events.parquet").stat().st_size and not moved:
            moved.append(path)
            raise OSError(28, "No space left on device")
        return rename(path, target)

    moved = []
    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(UsageError, match="No space left"):
        save_part(build_trace([("new", 0, 1)]), tmp_path / "t")
    assert_same_trace(load_trace(tmp_path / "t"), small)
    assert os.listdir(tmp_path / "t") == ["rank=00000"]


def test_what_a_killed_writer_left_is_not_read(small, tmp_path):
    save_part(small, tmp_path / "t")
    shutil.copytree(tmp_path / "t/rank=00000", tmp_path / "t/.rank=00001.abc")
    assert sorted(rank_folders(tmp_path / "t")) == [0]
    save_part(small, tmp_path / "t")


def test_folders_of_others_are_refused(small, tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds precious\.txt.*was not saved"):
        save_part(small, tmp_path)
    assert os.listdir(tmp_path) == ["precious.txt"]


def test_a_partition_written_by_somebody_else_is_refused(small, tmp_path):
    (tmp_path / "t/rank=00000").mkdir(parents=True)
    (tmp_path / "t/rank=00000/data.parquet").write_bytes(b"")
    with pytest.raises(UsageError, match="does not belong to a trace"):
        save_part(small, tmp_path / "t")
    assert (tmp_path / "t/rank=00000/data.parquet").exists()


def test_a_file_in_the_way_is_refused(small, tmp_path):
    (tmp_path / "t").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        save_part(small, tmp_path / "t")
    with pytest.raises(UsageError, match=r"cannot be written to .*Not a directory"):
        save_part(small, tmp_path / "t/below")


def test_the_name_of_a_json_is_refused(small, tmp_path):
    with pytest.raises(UsageError, match="export_chrome_trace"):
        save_part(small, tmp_path / "trace.json.gz")


@pytest.mark.parametrize("rank", [-1, 100_000])
def test_a_rank_out_of_range_is_refused(small, tmp_path, rank):
    with pytest.raises(UsageError, match="0 to 99999"):
        save_part(small, tmp_path / "t", Partition(RANK, rank))


def test_a_newer_schema_is_refused(saved):
    edit_manifest(saved, schema_version=SCHEMA_VERSION + 1, opscope_version="9.9")
    with pytest.raises(TraceFormatError, match=r"opscope 9\.9 .*pip install -U opscope"):
        load_trace(saved)


def test_a_folder_without_manifest_is_no_trace(saved):
    (saved / "manifest.json").unlink()
    with pytest.raises(TraceFormatError, match=r"no manifest\.json"):
        load_trace(saved.parent)


def test_a_folder_with_rings_alone_says_of_which_processes(tmp_path):
    for process in range(101, 108):
        (tmp_path / f".ring-{process}-1").touch()
    with pytest.raises(TraceFormatError, match=r"process 101, 102, 103, 104, 105 and 2 more\."):
        load_trace(tmp_path)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"format": "other"}', b"[" * 100_000,
             b'{"format":"opscope-trace","schema_version":true,"tables":{},"rank":0}',
             b'{"format":"opscope-trace","schema_version":1,"tables":[],"rank":0}',
             b'{"format":"opscope-trace","schema_version":1,"tables":{"events":3},"rank":0}',
             b'{"format":"opscope-trace","schema_version":1,"rank":0,"tables":'
             b'{"events":{"rows":9223372036854775808,"bytes":9}}}'],
)  # fmt: skip
def test_a_damaged_manifest_is_reported(saved, text):
    (saved / "manifest.json").write_bytes(text)
    with pytest.raises(TraceFormatError, match=r"manifest\.json cannot be read"):
        load_trace(saved)


def test_a_truncated_and_a_missing_table_are_reported(saved):
    whole = (saved / "events.parquet").read_bytes()
    (saved / "events.parquet").write_bytes(whole[:-10])
    with pytest.raises(TraceFormatError, match=r"bytes instead of.*Copy the whole trace"):
        load_trace(saved)
    (saved / "events.parquet").unlink()
    with pytest.raises(TraceFormatError, match=r"events\.parquet is damaged: it is missing"):
        load_trace(saved)


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_flipped_bits_are_reported_or_harmless(data, tmp_path_factory):
    folder = save_part(random_trace(1), tmp_path_factory.mktemp("trace") / "t")
    file = folder / data.draw(st.sampled_from(["events.parquet", "names.parquet"]))
    damaged = bytearray(file.read_bytes())
    position = data.draw(st.integers(0, len(damaged) - 1))
    damaged[position] ^= data.draw(st.integers(1, 255))
    file.write_bytes(damaged)
    try:
        trace = load_trace(folder)
    except TraceFormatError:
        return
    # Then the byte was one that carries nothing, or the values are still ones a trace can hold.
    assert len(trace.events) == len(random_trace(1).events)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("parent", [-1, -2, 0], "events.parent points outside events"),
        ("start_ns", [5, 4, 6], "not in order"),
        ("kind", [300, 300, 300], r"events\.parquet"),
    ],
)
def test_inconsistent_tables_are_reported(saved, column, values, message):
    frame = pandas.read_parquet(saved / "events.parquet")
    frame[column] = values
    write_table(saved, "events", pa.Table.from_pandas(frame))
    with pytest.raises(TraceFormatError, match=message):
        load_trace(saved)


@pytest.mark.parametrize("few_rows", [parquet.FEW_ROWS, 0])  # 0: as long tables are read
def test_other_programs_may_write_truths_as_numbers_and_null_for_none(saved, monkeypatch, few_rows):
    monkeypatch.setattr(parquet, "FEW_ROWS", few_rows)
    frame = pandas.read_parquet(saved / "events.parquet")
    frame["is_async"] = np.array([1, 0, 1], dtype=np.int32)
    frame["step"] = pandas.array([2, None, 2], dtype="Int32")
    write_table(saved, "events", pa.Table.from_pandas(frame))
    events = load_trace(saved).events
    assert events["is_async"].tolist() == [True, False, True]
    assert events["step"].tolist() == [2, -1, 2]


def test_damaged_bytes_of_a_column_are_reported(saved):
    file = saved / "events.parquet"
    group = parquet.pq.read_metadata(file).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    offset = next(c.data_page_offset for c in columns if c.path_in_schema == "duration_ns")
    content = bytearray(file.read_bytes())
    for position in range(offset + 20, offset + 60):
        content[position] ^= 0xFF
    file.write_bytes(content)
    with pytest.raises(TraceFormatError, match=r"events\.parquet"):
        load_trace(saved)


def test_columns_from_later_versions_are_ignored_and_missing_ones_filled(saved, small):
    frame = pandas.read_parquet(saved / "events.parquet")
    frame = frame.drop(columns=["is_async", "step"]).assign(new_in_the_future=1)
    write_table(saved, "events", pa.Table.from_pandas(frame))
    again = load_trace(saved)
    assert again.ledger.pop("newer opscope") == {"left out: column events.new_in_the_future": 1.0}
    for name in set(TABLES) - {"ledger"}:
        assert_same_table(again.table(name), small.table(name))


def test_the_writer_is_known_whatever_the_program_made_of_its_path(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [b"no text", None])
    folder = save_part(build_trace([]), tmp_path / "t")
    assert read_manifest(folder).opscope_version == opscope.__version__


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "loop"])
def test_a_path_that_no_folder_can_have_is_reported(small, tmp_path, name):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError, match=r"cannot be written to .*save again"):
        small.save(f"{tmp_path}/{name}")


def test_a_folder_of_cycles_says_which_there_are(tmp_path):
    for number in (1, 2, 10):
        (tmp_path / f"cycle-{number}").mkdir()
    with pytest.raises(TraceFormatError, match=r"Choose one: .*cycle-1 to cycle-10\."):
        load_trace(tmp_path)


@pytest.mark.parametrize(
    ("left", "is_saved", "is_loaded"),
    [
        (None, True, True),
        (_LIBRARIES_BYTES, False, False),
        (_LIBRARIES_BYTES, True, True),
        (_POOLS_BYTES, False, True),
    ],
)
def test_the_libraries_and_every_row_need_some(tmp_path, monkeypatch, left, is_saved, is_loaded):
    if not is_loaded:
        monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    else:
        import_module("pyarrow.parquet")
    monkeypatch.setattr(store, "process_memory_left", lambda: left)
    trace = build_trace([span("one", 0, 1)])
    if is_saved:
        trace.save(tmp_path / "t")
    else:
        with pytest.raises(InsufficientMemoryError, match=r"writing .*t: it needs about"):
            trace.save(tmp_path / "t")
    assert (tmp_path / "t").exists() is is_saved
