"""What vouches for a release: checksums of its files, and a statement of what they were made from.

The statement is one of in-toto (version 1) with a predicate of SLSA's provenance (version 1). It is
not signed: a service that builds releases signs it with its own identity.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

CHECKSUMS = "SHA256SUMS"
STATEMENT = "provenance.intoto.json"
_CHUNK_BYTES = 1 << 20


def sha256(file: Path) -> str:
    """The SHA-256 of what is in ``file``, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(file, "rb") as content:
        while chunk := content.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def write_checksums(files: Iterable[Path], folder: Path) -> Path:
    """Write those of ``files`` as ``sha256sum --check`` reads them."""
    path = folder / CHECKSUMS
    lines = [f"{sha256(file)}  {file.name}\n" for file in sorted(files)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def write_statement(
    files: Iterable[Path],
    folder: Path,
    *,
    commit: str,
    materials: Iterable[tuple[str, str]],
    parameters: Mapping[str, Any],
    began: datetime,
) -> Path:
    """Write of what, how and when ``files`` were made.

    Args:
        files: what is released.
        folder: where the statement goes.
        commit: of the sources.
        materials: names and SHA-256 of other files that went into them.
        parameters: what was asked for.
        began: when.
    """
    dependencies: list[dict[str, Any]] = [{"name": "opscope", "digest": {"gitCommit": commit}}]
    for name, digest in materials:
        dependencies.append({"name": name, "digest": {"sha256": digest}})
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": file.name, "digest": {"sha256": sha256(file)}} for file in sorted(files)
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:opscope:release:1",
                "externalParameters": dict(parameters),
                "internalParameters": {"machine": platform.platform()},
                "resolvedDependencies": dependencies,
            },
            "runDetails": {
                "builder": {"id": os.environ.get("OPSCOPE_BUILDER", "urn:opscope:local")},
                "metadata": {
                    "startedOn": _utc(began),
                    "finishedOn": _utc(datetime.now(timezone.utc)),
                },
            },
        },
    }
    path = folder / STATEMENT
    path.write_text(json.dumps(statement, indent=1) + "\n", encoding="utf-8")
    return path


def _utc(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
