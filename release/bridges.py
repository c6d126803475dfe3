"""Compiling bridges for released torches, with their index, as wheels bring them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from opscope.errors import BridgeError
from opscope.recording.bridge.bridge import compile_bridge, find_compiler
from opscope.recording.bridge.torch_build import INDEX, TorchBuild, index_entry
from release.headers import TorchRelease, headers_of
from release.running import ReleaseError, run

_STRIPPED = ("-s",)
# The bridge names these as what it needs; torch has loaded them by then: nothing of them is read.
_LINKED = ("torch_cpu", "c10")


@dataclass(frozen=True)
class MadeBridges:
    """What was compiled.

    Attributes:
        folder: with the libraries and their index.
        torch_wheels: names and SHA-256 of the files that headers are from.
        missing: what there is no bridge for, and why.
    """

    folder: Path
    torch_wheels: list[tuple[str, str]]
    missing: dict[str, str]


def make_bridges(
    releases: list[TorchRelease], source: Path, work: Path, say: Callable[[str], None]
) -> MadeBridges:
    """Compile a bridge for each release and ABI from the sources that wheels ship.

    Args:
        releases: what to compile for.
        source: the folder ``bridge_source`` of an installed opscope.
        work: a folder for headers, which are kept in it, and for the result.
        say: told what is not made.

    Raises:
        ReleaseError: one did not compile, or none was made.
    """
    folder = work / "bridges"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    missing: dict[str, str] = {}
    builds, wheels = [], []
    for release in releases:
        try:
            headers = headers_of(release.release, work / "torch")
        except ReleaseError as error:
            missing[release.release] = str(error)
            say(f"no bridge for torch {release.release}: its headers cannot be had")
            continue
        _let_link(headers.folder / "lib")
        wheels.append(headers.wheel)
        for abi in release.cxx11_abis:
            builds.append(TorchBuild(release.release, headers.git, abi, headers.folder))
    if not builds:
        raise ReleaseError("there are no headers of any release")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        entries = list(pool.map(lambda build: _make(build, source, folder), builds))
    (folder / INDEX).write_text(json.dumps({"bridges": entries}, indent=1) + "\n", encoding="utf-8")
    return MadeBridges(folder, wheels, missing)


def _make(build: TorchBuild, source: Path, folder: Path) -> dict[str, str]:
    abi = "cxx11" if build.cxx11_abi else "precxx11"
    library = folder / f"torch-{build.version}-{abi}.so"
    try:
        compile_bridge(build, source, library, _STRIPPED)
    except BridgeError as error:
        raise ReleaseError(str(error)) from error
    library.chmod(0o755)
    return index_entry(build.fingerprint(source), library)


def _let_link(folder: Path) -> None:
    """Empty libraries with the names of torch's are enough to link with."""
    folder.mkdir(exist_ok=True)
    for name in _LINKED:
        path = folder / f"lib{name}.so"
        if not path.exists():
            soname = f"-Wl,-soname,{path.name}"
            run([find_compiler() or "c++", "-shared", "-x", "c", "/dev/null", soname, "-o", path])
