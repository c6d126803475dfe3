"""The fake roctracer: building it, and playing activity through it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.fake_cupti import FakeCupti

SOURCE = Path(__file__).with_name("fake_roctracer.cpp")


def build_fake_roctracer() -> Path:
    """Compile it, once per source."""
    key = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    library = Path(tempfile.gettempdir()) / f"opscope-fake-roctracer-{os.getuid()}-{key}.so"
    if not library.exists():
        partial = library.with_suffix(f".{os.getpid()}")
        compiler = shutil.which("g++") or shutil.which("c++") or "c++"
        flags = ["-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-fvisibility=hidden"]
        subprocess.run([compiler, *flags, str(SOURCE), "-o", str(partial)], check=True)
        partial.rename(library)
    return library


class FakeRoctracer(FakeCupti):
    """What was recorded elsewhere, as roctracer would report it."""

    def __init__(self, path: str | Path) -> None:
        self._library = ctypes.CDLL(str(path))
