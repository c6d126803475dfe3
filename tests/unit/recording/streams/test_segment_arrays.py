"""Columns of a segment are read where they are what they say, and nothing is made room for else."""

import zipfile

import numpy as np
import pytest

from opscope.recording.streams import segment_arrays
from opscope.recording.streams.segment_arrays import write_arrays


@pytest.fixture
def columns(tmp_path):
    path = tmp_path / "late.npz"
    write_arrays(path, {"event": np.arange(5, dtype=np.int32), "raised": np.zeros(5, np.bool_)})
    return path


def rewritten(path, name, content, **options):
    with zipfile.ZipFile(path, "w", **options) as file:
        file.writestr(name, content)


def read_arrays(path, dtypes):
    with open(path, "rb") as file:
        return segment_arrays.read_arrays(file, dtypes)


def npy(header: str, values: bytes = b"") -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + values


def test_what_was_written_is_read(columns):
    read = read_arrays(columns, {"event": "int32", "raised": "bool"})
    assert read["event"].tolist() == [0, 1, 2, 3, 4]
    assert read["raised"].tolist() == [False] * 5


@pytest.mark.parametrize(
    ("name", "dtype"), [("event", "int64"), ("raised", "uint8"), ("parent", "int32")]
)
def test_other_columns_are_refused(columns, name, dtype):
    with pytest.raises((ValueError, KeyError)):
        read_arrays(columns, {name: dtype})


@pytest.mark.parametrize(
    "content",
    [
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"\x80\x04N."),
        npy("{'descr': '<i4', 'fortran_order': False, 'shape': (1000000000000,), }", bytes(4)),
        npy("{'descr': '<i4', 'fortran_order': False, 'shape': (1, 1), }", bytes(4)),
        npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", bytes(4)),
        b"",
    ],
)
def test_neither_objects_nor_what_is_not_there(columns, content):
    rewritten(columns, "event.npy", content)
    with pytest.raises(ValueError):
        read_arrays(columns, {"event": "int32"})


def test_what_is_packed_could_be_any_size(columns):
    content = npy("{'descr': '<i4', 'fortran_order': False, 'shape': (1000000,), }", bytes(4000000))
    rewritten(columns, "event.npy", content, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="larger than its file"):
        read_arrays(columns, {"event": "int32"})


def test_a_flag_is_0_or_1(columns):
    header = "{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }"
    rewritten(columns, "raised.npy", npy(header, b"\2"))
    with pytest.raises(ValueError, match="flag"):
        read_arrays(columns, {"raised": "bool"})


def test_what_is_no_archive_is_refused(columns):
    columns.write_bytes(b"PK\3\4" + bytes(100))
    with pytest.raises(ValueError):
        read_arrays(columns, {"event": "int32"})
