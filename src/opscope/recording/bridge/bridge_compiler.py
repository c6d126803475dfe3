"""Compiling the bridge: the compiler, its options, and errors when it fails."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from opscope.errors import BridgeError
from opscope.recording.bridge.torch_build import FLAGS, TorchBuild

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
