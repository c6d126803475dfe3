"""Bridges that ship with opscope, so that nothing is compiled for the torches they are for.

They lie beside the compiled core, with ``bridges.json``, which has of each what bridges are known
by (:meth:`TorchBuild.fingerprint`) and the hash of its file. What is built from source has none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope import _native
from opscope.recording.bridge.private_places import why_not_private
from opscope.recording.bridge.torch_build import release_of

INDEX = "bridges.json"


@dataclass(frozen=True)
class PrebuiltBridge:
    """A bridge that ships, for the torch that is installed.

    Attributes:
        path: of the library.
        torch_release: what it was compiled for, as in ``2.13.0``.
        problem: why it must not be loaded; None if it may be.
    """

    path: Path
    torch_release: str
    problem: str | None


def folder() -> Path:
    """Where they are, if there are any."""
    return Path(_native.__file__).parent / "prebuilt_bridges"


def index_entry(fingerprint: Mapping[str, str], library: Path) -> dict[str, str]:
    """What the index says of ``library``, which was compiled for ``fingerprint``."""
    return {**fingerprint, "file": library.name, "library": _hash(library)}


def find_prebuilt(fingerprint: Mapping[str, str]) -> PrebuiltBridge | None:
    """The one that ships for the torch of ``fingerprint``; None if none does."""
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
    """Whether there is one for any build of that release; it may still not fit."""
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
        return None if _hash(path) == expected else f"{path} is not what was shipped"
    except OSError as error:
        return f"{path} cannot be read ({error.strerror or error})"


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
