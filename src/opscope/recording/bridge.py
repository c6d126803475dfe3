"""Finding, compiling and loading the part of the recorder that is built against torch.

The bridge is one C++ file that ships with opscope and is compiled against the installed torch at
first use (some seconds), then kept in a cache. Its key covers everything that decides whether the
binary fits: torch version and git hash, C++ ABI, Python, platform, compiler flags and source.
Ranks that start at once are serialised by a file lock; a build goes to a temporary folder and is
renamed, so nobody ever loads half a file.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from opscope import _native
from opscope.errors import BridgeError
from opscope.notice import notice
from opscope.process_lock import process_lock

LOCK_TIMEOUT_S = 120.0
"""How long a process waits for another one that is building."""

# NDEBUG as in every torch release: torch's inline classes have other members without it.
_FLAGS = ("-std=c++20", "-O2", "-DNDEBUG", "-shared", "-fPIC", "-fvisibility=hidden")
_load_lock = process_lock()
_loaded: str | None = None


@dataclass(frozen=True)
class BridgeStatus:
    """What is known about the bridge without building it.

    Attributes:
        torch_version: of the installed torch; None if torch cannot be imported.
        compiler: the C++ compiler that would be used; None if there is none.
        path: where the compiled bridge is or would be; None without torch.
        built: whether it is there.
        loaded: whether this process has loaded it.
    """

    torch_version: str | None
    compiler: str | None
    path: Path | None
    built: bool
    loaded: bool


def status() -> BridgeStatus:
    """Describe the bridge; builds and loads nothing (but imports torch)."""
    try:
        path = _library_path()
        version = str(_torch().__version__)
    except BridgeError:
        return BridgeStatus(None, _compiler(), None, False, False)
    return BridgeStatus(version, _compiler(), path, _is_valid(path), _loaded is not None)


def build(force: bool = False) -> Path:
    """Compile the bridge against the installed torch, unless the cache has it.

    Args:
        force: compile even if the cache has it.

    Returns:
        The compiled library.

    Raises:
        BridgeError: no torch, no compiler, or the compiler failed.
    """
    path = _library_path()
    if not force and _is_valid(path):
        return path
    with _build_lock(path.parent):
        if not force and _is_valid(path):
            return path
        _compile(path)
    return path


def load() -> None:
    """Load the bridge into this process, compiling it first if needed. Idempotent.

    Raises:
        BridgeError: it could not be built, or was built for something else.
    """
    global _loaded
    if _loaded is not None:
        return
    with _load_lock:
        if _loaded is not None:
            return
        path = build()
        try:
            built_for = _native.attach_bridge(str(path))
        except RuntimeError as error:
            raise BridgeError(
                f"The torch bridge at {path} could not be loaded: {error}. Run `opscope build "
                "--force` to compile it again for the torch that is installed."
            ) from error
        if built_for != str(_torch().__version__):
            raise BridgeError(
                f"The torch bridge at {path} was compiled for torch {built_for}, but torch "
                f"{_torch().__version__} is running. Run `opscope build --force`."
            )
        _loaded = built_for


def cache_folder() -> Path:
    """Where compiled bridges are kept: ``OPSCOPE_CACHE``, else the user's cache folder."""
    chosen = os.environ.get("OPSCOPE_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "opscope"


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise BridgeError(
            "opscope records torch programs, and torch cannot be imported here "
            f"({error}). Install it first, for example with `pip install torch`."
        ) from error
    return torch


def _source_folder() -> Path:
    return Path(_native.__file__).parent / "bridge_source"


@lru_cache(maxsize=1)
def _fingerprint() -> dict[str, str]:
    torch = _torch()
    source = hashlib.sha256()
    for file in sorted(_source_folder().iterdir()):
        source.update(file.name.encode())
        source.update(file.read_bytes())
    return {
        "torch": str(torch.__version__),
        "torch_git": str(torch.version.git_version),
        "cxx11_abi": str(int(torch.compiled_with_cxx11_abi())),
        "python": platform.python_version(),
        "platform": f"{sys.platform}-{platform.machine()}",
        "flags": " ".join(_FLAGS),
        "source": source.hexdigest(),
    }


def _library_path() -> Path:
    fingerprint = _fingerprint()
    digest = hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / f"bridge-torch-{fingerprint['torch']}-{digest}" / "opscope_bridge.so"


def _is_valid(path: Path) -> bool:
    """A library counts only with a stamp that matches: what it is for, and its own hash.

    Loading half a library (a full disk, a bad copy) would crash the process, not raise.
    """
    try:
        stamp = json.loads((path.parent / "stamp.json").read_text())
        return bool(stamp == _stamp(path))
    except (OSError, ValueError):
        return False


def _stamp(library: Path) -> dict[str, str]:
    return {**_fingerprint(), "library": hashlib.sha256(library.read_bytes()).hexdigest()}


def _compiler() -> str | None:
    chosen = shlex.split(os.environ.get("CXX", ""))
    for candidate in (*chosen[:1], "g++", "c++", "clang++"):
        found = shutil.which(candidate)
        if found:
            return found
    return None


@contextmanager
def _build_lock(target: Path) -> Iterator[None]:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        file = open(target.parent / (target.name + ".lock"), "w")  # noqa: SIM115 (held across yield)
    except OSError as error:
        raise _unwritable(target.parent, error) from error
    with file:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise BridgeError(
                        f"Another process has held {file.name} for {LOCK_TIMEOUT_S:.0f} s. If none "
                        "is compiling the bridge any more, delete that file and try again."
                    ) from None
                time.sleep(0.05)
        yield


def _compile(path: Path) -> None:
    compiler = _compiler()
    if compiler is None:
        raise BridgeError(
            "opscope compiles a small bridge to torch at first use, and found no C++ compiler. "
            "Install one (Debian and Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++), or "
            "set CXX to one, or run `opscope build` where there is one and ship the cache folder. "
            "Looking at traces that were recorded elsewhere needs none."
        )
    version = _torch().__version__
    notice(f"compiling the bridge to torch {version} (once)...")
    try:
        _compile_into(path, compiler)
    except OSError as error:
        raise _unwritable(path.parent.parent, error) from error


def _compile_into(path: Path, compiler: str) -> None:
    work = Path(tempfile.mkdtemp(prefix="build-", dir=path.parent.parent))
    try:
        work.chmod(0o755)  # a cache filled by one user (root, in a container) serves others
        library = work / path.name
        command = _command(compiler, library)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise BridgeError(_compile_failure(command, done.stderr))
        (work / "stamp.json").write_text(json.dumps(_stamp(library)))
        shutil.rmtree(path.parent, ignore_errors=True)
        os.replace(work, path.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _unwritable(folder: Path, error: OSError) -> BridgeError:
    return BridgeError(
        f"The folder for compiled bridges, {folder}, cannot be written ({error}). Set "
        "OPSCOPE_CACHE to a folder that can."
    )


def _command(compiler: str, library: Path) -> list[str]:
    torch = _torch()
    root = Path(torch.__file__).parent
    source = _source_folder()
    chosen = shlex.split(os.environ.get("CXX", ""))
    return [
        compiler,
        *(chosen[1:] if chosen and shutil.which(chosen[0]) == compiler else ()),
        *_FLAGS,
        *_speed_flags(compiler),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f'-DOPSCOPE_TORCH_VERSION="{torch.__version__}"',
        f"-I{source}",
        f"-I{root / 'include'}",
        str(source / "torch_bridge.cpp"),
        "-o",
        str(library),
        # Named as needed because torch loads its libraries privately (RTLD_LOCAL).
        f"-L{root / 'lib'}",
        "-Wl,--no-as-needed",
        "-ltorch_cpu",
        "-lc10",
    ]


def _speed_flags(compiler: str) -> tuple[str, ...]:
    """What makes the bridge a little faster, where the compiler is known to have it."""
    if Path(compiler).name == "g++" and (sys.platform, platform.machine()) == ("linux", "x86_64"):
        return ("-mtls-dialect=gnu2",)  # thread-local variables are found without a call
    return ()


def _compile_failure(command: list[str], stderr: str) -> str:
    errors = [line for line in stderr.splitlines() if "error" in line] or stderr.splitlines()
    shown = "\n  ".join(errors[:5])
    return (
        f"The bridge to torch {_torch().__version__} did not compile. Run this command to see "
        f"everything: {' '.join(command)}\n  {shown}\nA compiler with C++20 (g++ 10, clang 12 or "
        "newer) is needed; set CXX to choose one."
    )
