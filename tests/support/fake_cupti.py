"""The fake CUPTI: finding NVIDIA's headers, building it, and playing activity through it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SOURCES = (
    FOLDER / "fake_cupti.cpp",
    FOLDER / "fake_cupti_script.cpp",
    FOLDER / "fake_cupti_play.cpp",
)
HEADER = FOLDER / "fake_cupti_state.h"


def header_folders() -> dict[str, list[Path]]:
    """Include folders by CUDA release, of those that ``make install`` put into the environment.

    A CUDA toolkit on the machine does as well.
    """
    found: dict[str, list[Path]] = {}
    root = Path(sys.prefix) / "cupti"
    cuda = sorted(root.glob("*/nvidia/cu13/include/cuda.h")) or sorted(root.glob("**/cuda.h"))
    for header in sorted(root.glob("*/nvidia/*/include/cupti.h")):
        if cuda:
            found[header.relative_to(root).parts[0]] = [header.parent, cuda[-1].parent]
    toolkit = Path("/usr/local/cuda/include")
    if (toolkit / "cupti.h").exists():
        found.setdefault("toolkit", [toolkit])
    return found


def build_fake(includes: list[Path]) -> Path:
    """Compile it, once per source and headers."""
    folders = [str(folder) for folder in includes]
    texts = [file.read_bytes() for file in (*SOURCES, HEADER)]
    key = hashlib.sha256(b"".join(texts) + "\n".join(folders).encode()).hexdigest()[:16]
    library = Path(tempfile.gettempdir()) / f"opscope-fake-cupti-{os.getuid()}-{key}.so"
    if not library.exists():
        partial = library.with_suffix(f".{os.getpid()}")
        compiler = shutil.which("g++") or shutil.which("c++") or "c++"
        flags = ["-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-fvisibility=hidden"]
        system = [flag for folder in folders for flag in ("-isystem", folder)]
        command = [compiler, *flags, *system, *map(str, SOURCES), "-o", str(partial)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-2000:])
        partial.rename(library)
    return library


class FakeCupti:
    """What a program does to the device, call by call; see the source for what each emits."""

    def __init__(self, path: str | Path) -> None:
        self._library: Any = ctypes.CDLL(str(path))
        self._library.fake_capture_node.restype = ctypes.c_uint64
        self._library.fake_instantiate_node.restype = ctypes.c_uint64

    @property
    def library(self) -> Any:
        """For what has no method here."""
        return self._library

    def set(self, name: str, value: int = 1) -> None:
        self._library.fake_set(name.encode(), value)

    def reset(self) -> None:
        self._library.fake_reset()

    def count(self, what: str) -> int:
        return int(self._library.fake_count(what.encode()))

    def launch(self, name: str, stream: int = 7, device: int = 0, duration_ns: int = 1000) -> int:
        return int(
            self._library.fake_launch(name.encode(), device, stream, ctypes.c_uint64(duration_ns))
        )

    def copy(self, size: int, stream: int = 7, device: int = 0, duration_ns: int = 1000) -> int:
        numbers = ctypes.c_uint64(size), ctypes.c_uint64(duration_ns)
        return int(self._library.fake_copy(device, stream, *numbers))

    def peer_copy(self, size: int, source: int, target: int, duration_ns: int = 1000) -> int:
        numbers = ctypes.c_uint64(size), ctypes.c_uint64(duration_ns)
        return int(self._library.fake_peer_copy(source, target, 7, *numbers))

    def fill(self, size: int, stream: int = 7, device: int = 0, duration_ns: int = 1000) -> int:
        numbers = ctypes.c_uint64(size), ctypes.c_uint64(duration_ns)
        return int(self._library.fake_fill(device, stream, *numbers))

    def record_event(self, event: int, stream: int = 7) -> int:
        return int(self._library.fake_record_event(0, stream, event))

    def wait_event(self, event: int, stream: int = 7) -> int:
        return int(self._library.fake_wait_event(0, stream, event))

    def allocate(self, address: int, size: int, release: bool = False) -> int:
        numbers = ctypes.c_uint64(address), ctypes.c_uint64(size)
        return int(self._library.fake_allocate(0, *numbers, int(release)))

    def overhead(self, duration_ns: int) -> None:
        self._library.fake_overhead(ctypes.c_uint64(duration_ns))

    def capture_node(self) -> int:
        return int(self._library.fake_capture_node())

    def instantiate_node(self, node: int) -> int:
        return int(self._library.fake_instantiate_node(ctypes.c_uint64(node)))

    def launch_graph(self, nodes: dict[int, str], stream: int = 7, duration_ns: int = 1000) -> int:
        count = len(nodes)
        ids = (ctypes.c_uint64 * count)(*nodes)
        names = (ctypes.c_char_p * count)(*(name.encode() for name in nodes.values()))
        return int(
            self._library.fake_launch_graph(
                ids, names, ctypes.c_size_t(count), 0, stream, ctypes.c_uint64(duration_ns)
            )
        )

    def call(self, function: int, api: int = 0) -> int:
        return int(self._library.fake_call(api, function))

    def driver_launch(self, name: str, stream: int = 7, duration_ns: int = 1000) -> int:
        duration = ctypes.c_uint64(duration_ns)
        return int(self._library.fake_driver_launch(name.encode(), stream, duration))

    def other_begins(self) -> int:
        return int(self._library.fake_other_begins())

    def other_ends(self) -> None:
        self._library.fake_other_ends()

    def finish(self) -> None:
        self._library.fake_finish()
