"""A plain file's content, unpacked: gzip, bzip2, xz and zstd, zip and tar archives of one file.

The first bytes of the file show its format. The unpacked size is limited: a small file of
compressed zeros fills any memory.
"""

from __future__ import annotations

import bz2
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from opscope.base.input_file import open_plain, shown_path, unreadable
from opscope.base.progress import report_progress
from opscope.errors import TraceFormatError

_MAX_EXPANSION = 250
"""JSON of a trace shrinks to a thirtieth; only malicious files shrink to a thousandth."""
_SMALL_BYTES = 1 << 26  # allowed for files of any size
_CHUNK_BYTES = 1 << 16
_HEAD_BYTES = 512
_TAR_MARK = slice(257, 262)
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # the second is an archive without files
_GZIP = zlib.MAX_WBITS | 16
_MAX_LAYERS = 4  # a gzip file in a tar in a zip: deeper files are not traces

_DAMAGED = (
    *(EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError),
    *(NotImplementedError, RuntimeError, ImportError),
)
"""Errors of unpacking a file that is damaged, has a password, or needs a missing library."""


class _Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


class UnpackedFile:
    """Reader of a file's content; a context manager.

    Attributes:
        size_bytes: size of the file itself.
        is_packed: the file is packed.
    """

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            TraceFormatError: it is missing, not a plain file, damaged, or has several files inside.
        """
        self._path, self._read_bytes = path, 0
        try:
            self._raw = open_plain(path)
        except FileNotFoundError as error:
            raise TraceFormatError(f"There is no file {path}. Check the path.") from error
        self.size_bytes = os.fstat(self._raw.fileno()).st_size
        try:
            with self._unpacking():
                self._source = _unpacked(path, _PeekableSource(self._raw))
        except BaseException:
            self._raw.close()
            raise
        self.is_packed = self._source.below is not self._raw

    @property
    def at_bytes(self) -> int:
        """Position in the packed file."""
        return self._raw.tell() if self.is_packed else self._read_bytes

    def read(self, size: int) -> bytes:
        """The next bytes, at most ``size``; empty at the end."""
        with self._unpacking():
            piece = self._source.read(size)
        self._read_bytes += len(piece)
        limit = max(_SMALL_BYTES, self.size_bytes * _MAX_EXPANSION)
        if self.is_packed and self._read_bytes > limit:
            raise TraceFormatError(
                f"{shown_path(self._path)} holds more than {self._read_bytes >> 20:,} MB in "
                f"{self.size_bytes >> 10:,} kB, more than a trace can have: it is damaged or "
                "malicious. Check its origin; if it is a trace, unpack it first."
            )
        return piece

    @contextmanager
    def _unpacking(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGED as error:
            raise TraceFormatError(
                f"{shown_path(self._path)} is not a whole packed file ({error}): it is damaged, or "
                "its writer was interrupted. Write it again."
            ) from error
        except OSError as error:
            raise unreadable(self._path, error) from error

    def __enter__(self) -> UnpackedFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._raw.close()


def head_of(path: Path, size: int) -> bytes:
    """The first bytes of a file's content; fewer for a damaged file."""
    pieces: list[bytes] = []
    with UnpackedFile(path) as file, suppress(TraceFormatError):
        while size > 0 and (piece := file.read(min(size, _CHUNK_BYTES))):
            pieces.append(piece)
            size -= len(piece)
    return b"".join(pieces)


def pieces_of(path: Path, piece_bytes: int) -> Iterator[bytes]:
    """Yield a file's content in pieces and report progress."""
    with UnpackedFile(path) as file:
        while piece := file.read(piece_bytes):
            yield piece
            report_progress(file.at_bytes, file.size_bytes)  # the caller has processed it


class _PeekableSource:
    """A source whose first bytes are available before they are read."""

    def __init__(self, below: _Source) -> None:
        self.below = below
        self._unread = self.head = _first(below)

    def read(self, size: int = -1) -> bytes:
        if not self._unread:
            return self.below.read(size)
        piece = self._unread if size < 0 else self._unread[:size]
        self._unread = self._unread[len(piece) :]
        return piece


def _first(source: _Source) -> bytes:
    head = b""
    while len(head) < _HEAD_BYTES and (piece := source.read(_HEAD_BYTES - len(head))):
        head += piece
    return head


class _Gzip:
    """Gzip members in order; a truncated one is read up to its end."""

    def __init__(self, below: _Source) -> None:
        self._below, self._unpack = below, zlib.decompressobj(_GZIP)
        self._packed = b""

    def read(self, size: int) -> bytes:
        while True:
            if self._unpack.eof:
                self._packed = (self._unpack.unused_data or self._below.read(_CHUNK_BYTES)).lstrip(
                    b"\0"
                )
                self._unpack = zlib.decompressobj(_GZIP)
            packed = self._packed or self._below.read(_CHUNK_BYTES)
            if not packed:
                return self._unpack.flush()
            piece = self._unpack.decompress(packed, size)
            self._packed = self._unpack.unconsumed_tail
            if piece:
                return piece


class _Tar:
    """The one file in a tar archive, read as a stream."""

    def __init__(self, path: Path, below: _Source) -> None:
        self._path = path
        archive = tarfile.open(fileobj=_FullReads(below), mode="r|")  # noqa: SIM115
        self._members = self._files(archive)
        self._file = next(self._members, None)

    def read(self, size: int) -> bytes:
        piece = b"" if self._file is None else self._file.read(size)
        if not piece and self._file is not None and next(self._members, None) is not None:
            raise _several_files_error(self._path)
        return piece

    @staticmethod
    def _files(archive: tarfile.TarFile) -> Iterator[Any]:
        for member in archive:
            if member.isfile() and not _is_hidden(member.name):
                yield archive.extractfile(member)


class _FullReads(io.RawIOBase):
    """Reads as many bytes as requested: tar's blocks have one size."""

    def __init__(self, below: _Source) -> None:
        self._below = below

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content = b""
        while len(content) < size and (piece := self._below.read(size - len(content))):
            content += piece
        return content


def _in_zip(path: Path, raw: BinaryIO) -> _Source:
    """The one file in a zip archive."""
    archive = zipfile.ZipFile(raw)
    files = [one for one in archive.infolist() if not one.is_dir() and not _is_hidden(one.filename)]
    if len(files) != 1:
        raise _several_files_error(path, [one.filename for one in files])
    return archive.open(files[0])


def _zstd(below: _Source) -> _Source:
    import pyarrow as pa  # its import takes longer than that of opscope

    stream: _Source = pa.CompressedInputStream(pa.PythonFile(_FullReads(below), mode="r"), "zstd")
    return stream


_LAYERS: tuple[tuple[bytes, Callable[[Any], Any]], ...] = (
    (b"\x1f\x8b", _Gzip),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\0", lzma.LZMAFile),
    (b"\x28\xb5\x2f\xfd", _zstd),
)


def _unpacked(path: Path, source: _PeekableSource) -> _PeekableSource:
    for _ in range(_MAX_LAYERS):
        head = source.head
        opener = next((opener for magic, opener in _LAYERS if head.startswith(magic)), None)
        if opener is not None:
            source = _PeekableSource(opener(source))
        elif head.startswith(_ZIP) and isinstance(source.below, io.BufferedReader):
            source = _PeekableSource(_in_zip(path, source.below))
        elif head[_TAR_MARK] == b"ustar":
            source = _PeekableSource(_Tar(path, source))
        else:
            break
    return source


def _is_hidden(name: str) -> bool:
    """Whether an archive's file is additional data, such as a Mac's attributes."""
    return os.path.basename(name).startswith(".") or name.startswith("__MACOSX/")


def _several_files_error(path: Path, names: list[str] | None = None) -> TraceFormatError:
    named = f" ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})" if names else ""
    how_many = "several files" if names is None else f"{len(names)} files"
    return TraceFormatError(
        f"{shown_path(path)} is an archive of {how_many}{named}. Unpack it, and load the file "
        "or folder inside."
    )
