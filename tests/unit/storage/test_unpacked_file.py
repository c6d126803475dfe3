"""What is in a packed file, told by its content."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile

import pyarrow as pa
import pytest

from opscope import load_trace
from opscope.errors import TraceFormatError
from opscope.storage import unpacked_file
from opscope.storage.unpacked_file import UnpackedFile, head_of, pieces_of
from support.chrome_files import names, op

TEXT = json.dumps([op(f"aten::{i}", i, 1) for i in range(500)]).encode()


def tar_of(mode="w", **files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        folder = tarfile.TarInfo("logs")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files.items():
            member = tarfile.TarInfo(f"logs/{name}.json")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def zip_of(**files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logs/", b"")
        archive.writestr("__MACOSX/._one.json", b"attributes")
        for name, content in files.items():
            archive.writestr(f"logs/{name}.json", content)
    return packed.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        gzip.compress(TEXT),
        gzip.compress(TEXT[:900]) + gzip.compress(TEXT[900:]) + bytes(100),
        gzip.compress(gzip.compress(TEXT)),
        bz2.compress(TEXT),
        lzma.compress(TEXT),
        pa.compress(TEXT, "zstd", asbytes=True),
        tar_of(one=TEXT),
        tar_of("w:gz", one=TEXT),
        tar_of("w:xz", one=gzip.compress(TEXT)),
        zip_of(one=TEXT),
        zip_of(one=gzip.compress(TEXT)),
    ],
)
@pytest.mark.parametrize("piece", [7, 1 << 20])
def test_one_file_is_read_whatever_it_is_packed_in(tmp_path, content, piece):
    path = tmp_path / "named.txt"
    path.write_bytes(content)

    assert b"".join(pieces_of(path, piece)) == TEXT
    assert head_of(path, 100) == TEXT[:100]
    assert names(load_trace(path))[-1] == "aten::499"


@pytest.mark.parametrize("content", [tar_of(one=TEXT, two=TEXT), zip_of(one=TEXT, two=TEXT)])
def test_an_archive_of_several_files_is_refused_with_what_to_do(tmp_path, content):
    (tmp_path / "t.zip").write_bytes(content)
    with pytest.raises(TraceFormatError, match=r"archive of (several|2) files.*Unpack it"):
        load_trace(tmp_path / "t.zip")


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress, lambda zeros: zip_of(one=zeros)]
)
def test_what_unpacks_to_too_much_is_left_alone(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(unpacked_file, "_SMALL_BYTES", 1 << 16)
    (tmp_path / "bomb").write_bytes(pack(bytes(4 << 20)))
    with pytest.raises(TraceFormatError, match=r"MB in .* kB, more than a trace can have"):
        for _ in pieces_of(tmp_path / "bomb", 1 << 12):
            pass


@pytest.mark.parametrize(
    "content",
    [
        b"PK\3\4 zip",
        b"\x1f\x8bgarbage",
        b"BZh9garbage",
        b"\xfd7zXZ\0garbage",
        b"\x28\xb5\x2f\xfdgarbage",
        bytes(257) + b"ustar" + bytes(300),
    ],
)
def test_a_damaged_archive_is_reported_to_be_one(tmp_path, content):
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(TraceFormatError, match=r"not a whole packed file|cannot be read|is empty"):
        load_trace(tmp_path / "t")


def test_of_a_cut_gzip_file_what_is_there_is_read(tmp_path):
    whole = gzip.compress(TEXT)
    (tmp_path / "t").write_bytes(whole[: len(whole) // 2])
    with UnpackedFile(tmp_path / "t") as file:
        assert TEXT.startswith(file.read(1 << 20))
    trace = load_trace(tmp_path / "t")
    assert 0 < len(trace.events) < 500
