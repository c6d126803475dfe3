"""Identifies the torch of a bridge, and finds shipped bridges.

Shipped bridges are beside the compiled core, with ``bridges.json``: for each, its
:meth:`TorchBuild.fingerprint` and the hash of its file. A build from source has none.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope import _native
from opscope.recording.bridge.private_places import why_not_private

# NDEBUG as in every torch release: torch's inline classes have other members without it.
FLAGS = ("-std=c++20", "-O2", "-DNDEBUG", "-shared", "-fPIC", "-fvisibility=hidden")

# Builds of one release that differ in the devices they compute on, and not in the headers that the
# bridge includes: 2.13.0, 2.13.0+cpu, 2.13.0+cu130.
_RELEASE = re.compile(r"(\d+\.\d+\.\d+)(\+cpu|\+cu\d+)?")


@dataclass(frozen=True)
class TorchBuild:
    """One build of torch."""

    version: str  # full version, such as ``2.13.0+cpu``
    git: str  # commit it was built from
    cxx11_abi: bool  # whether it was built with the C++ library's newer ABI
    folder: Path  # folder with its ``include`` and ``lib``

    @classmethod
    def of(cls, torch: Any) -> TorchBuild:
        """The build of the module ``torch``."""
        return cls(
            str(torch.__version__),
            str(torch.version.git_version),
            bool(torch.compiled_with_cxx11_abi()),
            Path(torch.__file__).parent,
        )

    def fingerprint(self, source: Path) -> dict[str, str]:
        """Facts that decide whether a bridge from the sources in folder ``source`` fits.

        Python's version is left out: the bridge does not include or call Python.
        """
        content = hashlib.sha256()
        for file in sorted(path for path in source.rglob("*") if path.is_file()):
            content.update(str(file.relative_to(source)).encode())
            content.update(file.read_bytes())
        return {
            "torch": self.version,
            "torch_git": self.git,
            "cxx11_abi": str(int(self.cxx11_abi)),
            "platform": f"{sys.platform}-{platform.machine()}",
            "flags": " ".join(FLAGS),
            "source": content.hexdigest(),
        }


def release_of(version: str) -> str | None:
    """The release that torch ``version`` is a build of; None for a custom build."""
    known = _RELEASE.fullmatch(version)
    return known[1] if known else None


INDEX = "bridges.json"


@dataclass(frozen=True)
class PrebuiltBridge:
    """A shipped bridge for the installed torch."""

    path: Path  # path of the library
    torch_release: str  # release it was compiled for, such as ``2.13.0``
    problem: str | None  # why the library must not be loaded; None if it may be


def folder() -> Path:
    """Folder of shipped bridges; may not exist."""
    return Path(_native.__file__).parent / "prebuilt_bridges"


def index_entry(fingerprint: Mapping[str, str], library: Path) -> dict[str, str]:
    """Entry of the index for ``library``, compiled for ``fingerprint``."""
    return {**fingerprint, "file": library.name, "library": _hash(library)}


def find_prebuilt(fingerprint: Mapping[str, str]) -> PrebuiltBridge | None:
    """The shipped bridge for the torch of ``fingerprint``; None without one."""
    release = release_of(fingerprint["torch"])
    if release is None:
        return None
    wanted = {**fingerprint, "torch": release}
    for entry in _index():
        if all(entry.get(key) == value for key, value in wanted.items()):
            path = folder() / Path(str(entry.get("file"))).name
            return PrebuiltBridge(path, release, _problem(path, str(entry.get("library"))))
    return None


def ships_for(torch_release: str) -> bool:
    """Whether a bridge ships for any build of that release; it may still not fit."""
    return any(entry.get("torch") == torch_release for entry in _index())


def _index() -> list[dict[str, Any]]:
    try:
        entries = json.loads((folder() / INDEX).read_text(encoding="utf-8"))["bridges"]
        return [entry for entry in entries if isinstance(entry, dict)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _problem(path: Path, expected: str) -> str | None:
    reason = why_not_private(path)
    if reason is not None:
        return reason
    try:
        return None if _hash(path) == expected else f"{path} differs from the shipped file"
    except OSError as error:
        return f"{path} cannot be read ({error.strerror or error})"


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
