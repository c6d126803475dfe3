"""Whatever stands where a trace should: read at once, or refused at once, in a sentence."""

import os
import socket
import sys

import pyarrow as pa
import pytest

from opscope import load_trace
from opscope.base import memory_limit
from opscope.errors import InsufficientMemoryError, TraceFormatError
from opscope.storage.manifest import rank_folders
from support.hostile_sources import built_trace
from support.rewritten_trace import write_table


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/dev/zero", "is a device, but a trace is a folder"),
        ("pipe", r"is a pipe.*to a file first"),
        ("socket", "is a socket"),
    ],
)
def test_what_is_neither_file_nor_folder_is_refused_at_once(tmp_path, monkeypatch, name, said):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        with pytest.raises(TraceFormatError, match=said):
            load_trace(name)


NULL = "null character" if sys.version_info >= (3, 13) else "null byte"


@pytest.mark.parametrize("name", ["manifest.json", "events.parquet", "names.parquet"])
@pytest.mark.parametrize("device", ["pipe", "/dev/zero", "folder", "loop"])
def test_files_of_a_trace_are_plain_files(tmp_path, name, device):
    rank = built_trace().save(tmp_path / "t")
    (rank / name).unlink()
    if device == "pipe":
        os.mkfifo(rank / name)
    elif device == "folder":
        (rank / name).mkdir()
    else:
        (rank / name).symlink_to(name if device == "loop" else device)
    with pytest.raises(TraceFormatError, match=rf"{name}.* (is a|cannot be read: Too many levels)"):
        load_trace(tmp_path / "t")


@pytest.mark.parametrize(
    ("name", "reason"),
    [("x" * 300, "File name too long"), ("a\0b", NULL), ("\ud800", "surrogates"),
     ("d/" * 3000, "File name too long"), ("loop", "Too many levels of symbolic links"),
     ("loop/below", "Too many levels of symbolic links")],
)  # fmt: skip
def test_paths_that_cannot_be_looked_at_say_why(tmp_path, name, reason):
    (tmp_path / "loop").symlink_to("loop")
    for look in (load_trace, rank_folders):
        with pytest.raises(TraceFormatError, match=f"cannot be read: .*{reason}"):
            look(f"{tmp_path}/{name}")


def test_a_path_may_be_bytes(tmp_path):
    built_trace().save(tmp_path / "t")
    assert len(load_trace(os.fsencode(tmp_path / "t")).events)


def test_a_file_larger_than_memory_is_not_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_limit, "memory_left", lambda: 1000)
    with open(tmp_path / "t.json", "wb") as file:
        file.truncate(1 << 40)  # of nothing: it takes no room on the disk
    with pytest.raises(InsufficientMemoryError, match=r"not enough .*t\.json.*GB are available"):
        load_trace(tmp_path / "t.json")


def test_a_parquet_file_is_measured_before_it_is_unpacked(tmp_path, monkeypatch):
    rank = built_trace().save(tmp_path / "t")
    monkeypatch.setattr(memory_limit, "memory_left", lambda: 1 << 20)
    rows = 10_000_000
    lists = pa.FixedSizeListArray.from_arrays(pa.nulls(rows, pa.int64()).fill_null(0), 10_000)
    write_table(rank, "gpu", pa.table({"grid": lists.cast(pa.list_(pa.int64()))}))
    assert (rank / "gpu.parquet").stat().st_size < 200_000
    with pytest.raises(InsufficientMemoryError, match=r"gpu\.parquet: it needs about 0\.1 GB"):
        load_trace(rank)


def test_a_text_that_is_repeated_counts_each_time(tmp_path, monkeypatch):
    rank = built_trace().save(tmp_path / "t")
    monkeypatch.setattr(memory_limit, "memory_left", lambda: 1 << 26)
    names = pa.DictionaryArray.from_arrays(pa.nulls(1000, pa.int32()).fill_null(0), ["x" * 100_000])
    write_table(rank, "names", pa.table({"text": names}))
    assert (rank / "names.parquet").stat().st_size < 100_000
    with pytest.raises(InsufficientMemoryError, match=r"names\.parquet: it needs about 0\.1 GB"):
        load_trace(rank)


def test_memory_that_runs_out_while_reading_is_reported(tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    rank = built_trace().save(tmp_path / "t")
    monkeypatch.setattr("opscope.storage.read_part.ParquetColumns", full)
    with pytest.raises(InsufficientMemoryError, match=r"not enough memory for reading .*ulimit"):
        load_trace(rank)
