"""Atomic writing of an output file, plain or gzip.

A file appears under its name only when it is complete; until then it is a temporary file beside it.
Two threads compress the blocks (zlib releases the GIL). The result is one gzip member, because some
readers stop after the first.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from opscope.base.address import refuse_address
from opscope.base.artefacts import unfinished_name
from opscope.base.locks import lock_shared
from opscope.base.thread_pool import ThreadPool
from opscope.errors import UsageError

Block: TypeAlias = bytes | npt.NDArray[np.uint8]
View: TypeAlias = bytes | memoryview

COMPRESSION_LEVEL = 1  # traces are repetitive: higher levels cost more time than they save bytes
_THREADS = 2
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
_END_OF_DEFLATE = b"\x03\x00"  # an empty last block


def write_file(path: str | os.PathLike[str], blocks: Iterable[Block]) -> None:
    """Write ``blocks`` to ``path``, compressed if its name ends in ``.gz``.

    Raises:
        UsageError: the file cannot be written; an existing file is unchanged.
    """
    name = os.fspath(path)
    _check_name(name)
    refuse_address(name)
    views = (block if isinstance(block, bytes) else block.data for block in blocks)
    try:
        with _replacing(name) as file:
            for view in _gzip(views) if name.endswith(".gz") else views:
                file.write(view)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"Cannot write {name}: {reason}. No file was written; choose a file in a folder "
            "that exists, is writable and has free space."
        ) from error


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise UsageError if :func:`write_file` could not write ``path``; changes nothing."""
    _check_name(os.fspath(path))
    refuse_address(path)
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "ab"):
                return
        with tempfile.TemporaryFile(dir=os.path.dirname(target)):
            return
    except OSError as error:
        raise UsageError(
            f"{os.fspath(path)} cannot be written: {error.strerror or error}. Choose a file in a "
            "folder that exists and that you may write to."
        ) from error


def _check_name(name: str) -> None:
    """Raise UsageError for names with a NUL or an unpaired surrogate, which no system accepts."""
    try:
        if b"\0" not in os.fsencode(name):
            return
    except UnicodeEncodeError:
        pass
    raise UsageError(f"{name!r} is not a valid file name. Choose another.")


@contextmanager
def _replacing(name: str) -> Iterator[IO[bytes]]:
    target = os.path.realpath(name)  # replace the target of a link, not the link
    if os.path.exists(target) and not os.path.isfile(target):
        # Write to a pipe or /dev/stdout directly. A folder raises an error here.
        with open(target, "wb") as file:
            yield file
        return
    folder, base = os.path.split(target)
    temporary = os.path.join(folder, unfinished_name(base, ".part"))
    try:
        with open(temporary, "xb") as file:
            lock_shared(file.fileno())
            yield file
            file.flush()
            os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _gzip(blocks: Iterable[View]) -> Iterator[View]:
    """``blocks`` as one gzip stream; at most a few of them are in memory."""
    checksum, size = 0, 0
    pending: deque[Future[bytes]] = deque()
    yield _GZIP_HEADER
    with ThreadPool(_THREADS) as pool:
        for block in blocks:
            pending.append(pool.submit(_deflate, block))
            checksum = zlib.crc32(block, checksum)
            size += len(block)
            if len(pending) > _THREADS:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    yield _END_OF_DEFLATE + checksum.to_bytes(4, "little") + (size % 2**32).to_bytes(4, "little")


def _deflate(block: View) -> bytes:
    """Compress to a byte boundary, so that the next block can follow."""
    deflater = zlib.compressobj(COMPRESSION_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, 9)
    return deflater.compress(block) + deflater.flush(zlib.Z_SYNC_FLUSH)


def to_json(value: Any) -> str:
    """``value`` as one line of ASCII JSON; non-finite floats become text."""
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value))
    return text.replace("</", "<\\/")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return value
