"""Finding, compiling and loading the part of the recorder that is built against torch.

The bridge is one C++ file that ships with opscope. For released torches it ships compiled
(:mod:`~opscope.recording.bridge.torch_build`); for others it is compiled at first use (some
seconds) and cached. The cache key covers everything that decides whether the binary fits: torch
version and git hash, C++ ABI, platform, compiler flags and source. It is loaded only from folders
that only this user and root can write to. A file lock serialises ranks that start at once; a build
goes to a temporary folder and is renamed, so no process loads half a file.
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import opscope._native as _native
from opscope.base.cache_folder import cache_folder
from opscope.base.folder_swap import replace_folder
from opscope.base.notice import notice
from opscope.errors import BridgeError
from opscope.recording.bridge.torch_build import FLAGS, TorchBuild, find_prebuilt, why_not_private

_NEEDED_BYTES = 1 << 20
"""Free disk space that a bridge and the linker's temporary files need at most."""


def find_compiler() -> str | None:
    """The C++ compiler that ``CXX`` names, else a usual one; None without any.

    Names are looked up only in the absolute folders of ``PATH``: any user may write to the current
    folder.
    """
    for candidate in (*_chosen()[:1], "g++", "c++", "clang++"):
        found = _place_of(candidate)
        if found:
            return found
    return None


def _place_of(name: str) -> str | None:
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    search = os.pathsep.join(folder for folder in folders if os.path.isabs(folder))
    found = shutil.which(name, path=search)
    return found and os.path.abspath(found)


def _chosen() -> list[str]:
    """Words of ``CXX``: the compiler, then its options."""
    chosen = os.environ.get("CXX", "")
    try:
        return shlex.split(chosen)
    except ValueError:  # an unusual name without options
        return [chosen]


def compile_bridge(
    torch: TorchBuild, source: Path, library: Path, more: tuple[str, ...] = ()
) -> None:
    """Compile the bridge in ``source`` to ``library``; ``more`` are further options."""
    source, library = source.absolute(), library.absolute()
    compiler = find_compiler()
    if compiler is None:
        raise BridgeError(
            "opscope compiles a small bridge to torch at first use, and found no C++ compiler. "
            "Install one (Debian and Ubuntu: apt-get install g++; Fedora: dnf install "
            "gcc-c++), or set CXX, or run `opscope doctor --build` on a machine with a "
            "compiler and copy the cache folder. Reading traces needs no compiler."
        )
    command = [*_command(compiler, torch, source, library), *more]
    try:
        # An empty entry in a variable such as CPATH makes the compiler search its current folder.
        done = subprocess.run(
            command, cwd=library.parent, capture_output=True, text=True, errors="replace"
        )
    except OSError as error:
        raise BridgeError(
            f"The compiler {compiler} cannot be run ({error.strerror or error}). Set CXX to "
            "another compiler."
        ) from error
    if done.returncode != 0 or not library.exists():
        raise BridgeError(
            f"The bridge to torch {torch.version} did not compile. For the full output, run: "
            f"{_to_type(command, library)}\n  {_compiler_errors(done.stderr)}\n"
            f"{_advice(done.returncode, library.parent)}"
        )


def _to_type(command: list[str], library: Path) -> str:
    """The command for a shell; it writes to the current folder, as that of ``library`` is gone."""
    return shlex.join(library.name if part == str(library) else part for part in command)


def _command(compiler: str, torch: TorchBuild, source: Path, library: Path) -> list[str]:
    chosen = _chosen()
    return [
        compiler,
        *(chosen[1:] if chosen and _place_of(chosen[0]) == compiler else ()),
        *FLAGS,
        *_speed_flags(compiler),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.cxx11_abi)}",
        f'-DOPSCOPE_TORCH_VERSION="{torch.version}"',
        f"-I{source}",
        f"-I{torch.folder / 'include'}",
        str(source / "torch" / "torch_bridge.cpp"),
        "-o",
        str(library),
        # Named as needed because torch loads its libraries privately (RTLD_LOCAL).
        f"-L{torch.folder / 'lib'}",
        "-Wl,--no-as-needed",
        "-ltorch_cpu",
        "-lc10",
    ]


def _speed_flags(compiler: str) -> tuple[str, ...]:
    """Options that make the bridge faster, where the compiler is known to support them."""
    if Path(compiler).name == "g++" and (sys.platform, platform.machine()) == ("linux", "x86_64"):
        return ("-mtls-dialect=gnu2",)  # thread-local variables are found without a call
    return ()


def _compiler_errors(stderr: str) -> str:
    lines = stderr.splitlines()
    errors = [line for line in lines if "error" in line or "No space left" in line]
    return "\n  ".join((errors or lines)[:5]) or "The compiler printed nothing."


def _advice(returncode: int, folder: Path) -> str:
    """The most likely remedy if the compiler made no library."""
    for place in (folder, _temporary_folder()):
        if shutil.disk_usage(place).free < _NEEDED_BYTES:
            return (
                f"The disk of {place} is full. Free space, or set OPSCOPE_CACHE (compiled "
                "files) and TMPDIR (temporary files of the compiler) to other folders."
            )
    if returncode < 0:
        return (
            f"Signal {-returncode} ended the compiler. Signal 9 usually means that memory ran "
            "out: try again with more memory."
        )
    return "A compiler with C++20 (g++ 10, clang 12 or newer) is needed; set CXX to choose one."


def _temporary_folder() -> str:
    chosen = os.environ.get("TMPDIR", "")
    return chosen if os.path.isdir(chosen) else "/tmp"


LOCK_TIMEOUT_S = 120.0  # longest wait for another process that builds the bridge
_UNFINISHED = "build-"
_ABANDONED_AFTER_S = 3600.0
_loading = _native.Section()
_loaded: str | None = None


@dataclass(frozen=True)
class BridgeStatus:
    """State of the bridge, found without building it."""

    torch_version: str  # version of the installed torch
    compiler: str | None  # the C++ compiler that would be used; None if there is none
    path: Path  # where the compiled bridge is or would be
    built: bool  # whether the compiled bridge exists
    shipped: bool  # whether the bridge came with opscope and was not compiled here


@dataclass(frozen=True)
class ReadyBridge:
    """A library that can be loaded, and the torch version it was compiled for."""

    path: Path
    built_for: str
    shipped: bool


def status() -> BridgeStatus:
    """Describe the bridge; builds and loads nothing (but imports torch).

    Raises:
        BridgeError: torch cannot be imported.
    """
    ready = _find()
    return BridgeStatus(
        torch_version=str(_torch().__version__),
        compiler=find_compiler(),
        path=_library_path() if ready is None else ready.path,
        built=ready is not None,
        shipped=ready is not None and ready.shipped,
    )


def build(force: bool = False) -> Path:
    """Compile the bridge against the installed torch, unless it exists.

    Args:
        force: compile even if the bridge ships with opscope or is in the cache.

    Raises:
        BridgeError: no torch, no compiler, the compiler failed, or other users can write to the
            cache.
    """
    return _make_ready(force).path


def _make_ready(force: bool) -> ReadyBridge:
    ready = None if force else _find()
    if ready is not None:
        return ready
    path = _library_path()
    with _build_lock(path.parent):
        if force or not _is_valid(path):
            _compile(path)
    return _compiled(path)


def _find() -> ReadyBridge | None:
    """A bridge compiled here (a user may have requested it), else a shipped one, else None."""
    path = _library_path()
    if _is_valid(path):
        return _compiled(path)
    shipped = find_prebuilt(_fingerprint())
    if shipped is None:
        return None
    if shipped.problem is not None:
        _notice_once(f"the bridge that ships with opscope is not used: {shipped.problem}")
        return None
    return ReadyBridge(shipped.path, shipped.torch_release, shipped=True)


def _compiled(path: Path) -> ReadyBridge:
    return ReadyBridge(path, str(_torch().__version__), shipped=False)


@lru_cache(maxsize=1)
def _notice_once(text: str) -> None:
    notice(text)


def load() -> None:
    """Load the bridge into this process, compiling it first if needed. Idempotent.

    Raises:
        BridgeError: the bridge could not be built, or was built for another torch.
    """
    if _loaded is None:
        _loading.run(_load)


def _load() -> None:
    global _loaded
    if _loaded is not None:
        return
    ready = _make_ready(force=False)
    path = ready.path
    try:
        built_for = _native.attach_bridge(str(path))
    except RuntimeError as error:
        raise BridgeError(
            f"The torch bridge at {path} could not be loaded: {error}. Run `opscope doctor --build "
            "--force` to compile it again for the torch that is installed."
        ) from error
    if built_for != ready.built_for:
        raise BridgeError(
            f"The torch bridge at {path} was compiled for torch {built_for}, but torch "
            f"{_torch().__version__} is running. Run `opscope doctor --build --force`."
        )
    _loaded = built_for


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
    return TorchBuild.of(_torch()).fingerprint(_source_folder())


def _library_path() -> Path:
    fingerprint = _fingerprint()
    digest = hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / f"bridge-torch-{fingerprint['torch']}-{digest}" / "opscope_bridge.so"


def _is_valid(path: Path) -> bool:
    """Whether the library is private and its stamp names this torch and the library's hash.

    Loading half a library (a full disk, a bad copy) would crash the process instead of raising. A
    library that other users can write to is compiled again, not loaded.
    """
    if why_not_private(path) is not None:
        return False
    try:
        stamp = json.loads((path.parent / "stamp.json").read_text())
        return bool(stamp == _stamp(path))
    except (OSError, ValueError):
        return False


def _stamp(library: Path) -> dict[str, str]:
    return {**_fingerprint(), "library": hashlib.sha256(library.read_bytes()).hexdigest()}


@contextmanager
def _build_lock(target: Path) -> Iterator[None]:
    try:
        _make_cache(target.parent)
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
                        f"Another process has held {file.name} for {LOCK_TIMEOUT_S:.0f} s. If "
                        "no process compiles the bridge, delete this file and try again."
                    ) from None
                time.sleep(0.05)
        yield


def _make_cache(cache: Path) -> None:
    """Create the folder and its parents: readable for all, writable for this user alone."""
    for folder in (*reversed(cache.parents), cache):
        if not folder.exists():
            folder.mkdir(mode=0o755, exist_ok=True)
    reason = why_not_private(cache)
    if reason is not None:
        raise BridgeError(
            f"The bridge in {cache} is not loaded, because other users can write there: "
            f"{reason}. Set OPSCOPE_CACHE to a folder that only you can write to."
        )


def _compile(path: Path) -> None:
    """Compile to ``path``. The caller holds its lock, so no other process compiles it."""
    version = _torch().__version__
    if find_compiler() is not None:  # else there is nothing to wait for
        notice(f"compiling the bridge to torch {version} (once)...")
    cache = path.parent.parent
    try:
        _remove_left_behind(cache)
        with _new_folder(cache) as new, _new_folder(cache) as old:
            library = new / path.name
            compile_bridge(TorchBuild.of(_torch()), _source_folder(), library)
            stamp = new / "stamp.json"
            stamp.write_text(json.dumps(_stamp(library)))
            library.chmod(0o755)  # independent of the umask, else it would not be loaded
            stamp.chmod(0o644)
            replace_folder(path.parent, new, old)  # other processes may be loading the old one
    except OSError as error:
        raise _unwritable(cache, error) from error


@contextmanager
def _new_folder(cache: Path) -> Iterator[Path]:
    """A temporary folder, removed at the end unless it was renamed."""
    folder = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=cache))
    try:
        folder.chmod(0o755)  # a cache filled by one user (root, in a container) serves others
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_left_behind(cache: Path) -> None:
    """Remove temporary folders of processes that were killed while they compiled."""
    for folder in cache.glob(f"{_UNFINISHED}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _ABANDONED_AFTER_S:
                shutil.rmtree(folder, ignore_errors=True)


def _unwritable(folder: Path, error: OSError) -> BridgeError:
    return BridgeError(
        f"The folder for compiled bridges, {folder}, cannot be written ({error}). Set "
        "OPSCOPE_CACHE to a writable folder."
    )
