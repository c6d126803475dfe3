"""The headers of released torches, taken out of their wheels."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from release.running import ReleaseError, run
from release.vouching import sha256

LISTED = Path(__file__).parent / "torch_releases.json"
_WANTED = re.compile(r"torch/(include/.*|version\.py)")


@dataclass(frozen=True)
class TorchRelease:
    """A released torch, and the C++ ABIs of its wheels (True is the newer one)."""

    release: str
    cxx11_abis: tuple[bool, ...]


@dataclass(frozen=True)
class TorchHeaders:
    """Headers of a release on this disk.

    Attributes:
        folder: with ``include``.
        git: the commit that the release was built from.
        wheel: the name of the file that they are from, and its SHA-256.
    """

    folder: Path
    git: str
    wheel: tuple[str, str]


def listed() -> list[TorchRelease]:
    """All releases that bridges are compiled for."""
    rows = json.loads(LISTED.read_text(encoding="utf-8"))["releases"]
    return [TorchRelease(row["release"], tuple(row["cxx11_abis"])) for row in rows]


def headers_of(release: str, kept: Path) -> TorchHeaders:
    """The headers of ``release``, which pip fetches if they are not in the folder ``kept`` yet.

    Raises:
        ReleaseError: pip cannot get a wheel of that release.
    """
    folder = kept / release
    origin = folder / "origin.json"
    if not origin.exists():
        _fetch(release, folder)
    wheel, digest = json.loads(origin.read_text(encoding="utf-8"))
    version = (folder / "torch" / "version.py").read_text(encoding="utf-8")
    git = re.search(r"^git_version = '([0-9a-f]{40})'", version, re.MULTILINE)
    if git is None:
        raise ReleaseError(f"{wheel} does not say which commit it was built from")
    return TorchHeaders(folder / "torch", git[1], (wheel, digest))


def _fetch(release: str, folder: Path) -> None:
    """Headers are the same whichever Python a wheel is for, so one of them will do."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-cache-dir", "--no-deps"],
            ["--only-binary", ":all:", "--dest", temporary, f"torch=={release}"],
            # A machine may hold back newer releases than it keeps; this one is asked for by name.
            variables={"PIP_CONSTRAINT": os.devnull},
        )
        (wheel,) = Path(temporary).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            wanted = [name for name in archive.namelist() if _WANTED.fullmatch(name)]
            shutil.rmtree(folder / "torch", ignore_errors=True)
            archive.extractall(folder, wanted)
        (folder / "origin.json").write_text(json.dumps([wheel.name, sha256(wheel)]))
