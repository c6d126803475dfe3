"""Windows of long traces, kept in the cache folder: reading 100 million spans takes a minute.

A trace's own folder may belong to other users. A kept file whose owner, checksums, types or row
numbers are wrong is made anew.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.artefacts import unfinished_name
from opscope.base.cache_folder import cache_folder
from opscope.report.windows import Windows
from opscope.storage.long_trace import LongTrace
from opscope.storage.manifest import MANIFEST, opscope_version

_LEAST_SPANS = 2_000_000  # fewer are read in about a second
_MOST_BYTES = 1 << 30  # of all files; those that were not used for the longest time are removed
_READ = (MANIFEST, "events.parquet", "python_calls.parquet", "frames.parquet", "names.parquet")


def windows_of(trace: LongTrace) -> Windows:
    """Windows of a trace, from the cache folder if they are there."""
    if trace.rows["events"] < _LEAST_SPANS:
        return Windows(trace)
    file = cache_folder() / "windows" / f"{_identity(trace.folder)}.npz"
    with suppress(OSError, ValueError, LookupError, EOFError, zipfile.BadZipFile, zlib.error):
        return _read(trace, file)
    windows = Windows(trace)
    with suppress(OSError):  # then they are made again next time
        _keep(windows, file)
    return windows


def _identity(folder: Path) -> str:
    parts: list[object] = [opscope_version(), str(folder.resolve())]
    for name in _READ:
        with suppress(OSError):
            status = (folder / name).stat()
            parts += [name, status.st_ino, status.st_size, status.st_mtime_ns]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _read(trace: LongTrace, file: Path) -> Windows:
    with file.open("rb") as opened:
        status = os.fstat(opened.fileno())
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise ValueError("other users can write to it")
        with np.load(opened, allow_pickle=False) as arrays:
            windows = Windows(trace, {name: arrays[name] for name in arrays.files})
        os.utime(opened.fileno())
    return windows


def _keep(windows: Windows, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(unfinished_name(file.name))
    try:
        arrays: dict[str, Any] = windows.arrays()
        with open(new, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as opened:
            np.savez(opened, **arrays)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
    left = _MOST_BYTES
    for old in sorted(file.parent.glob("*.npz*"), key=lambda one: -one.stat().st_mtime_ns):
        left -= old.stat().st_size
        if left < 0 and old != file:
            old.unlink()
