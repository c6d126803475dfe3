"""What says that a rollup is whole, and of what it was made: ``rollup.json``, written last.

A reader believes a rollup if it is of this version, of the process whose folder it lies in, of the
manifest that lies there, and has files of the sizes it says. Else it is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from opscope.base.artefacts import unfinished_name
from opscope.base.input_file import open_in_folder
from opscope.errors import TraceFormatError
from opscope.jobs.rollup.schema import ROLLUP_TABLES, VERSION
from opscope.storage.manifest import MANIFEST, ROLLUP, opscope_version

FORMAT = "opscope-rollup"
_MOST_BYTES = 1 << 20
_MANIFEST_BYTES = 1 << 22


@dataclass(frozen=True, kw_only=True)
class RollupMark:
    """What a rollup says about itself.

    Attributes:
        of: hash of the manifest of the trace, SHA-256.
        part: name of the folder of the trace.
        events: how many it has.
        lost: how much its ledger says was dropped, or is known to a newer opscope alone.
        steps_are: what a step is, where the program does not mark them; else empty.
        step_ns: what a step takes on average, by period; -1 without steps.
        tables: rows and bytes of every file, by table name.
        version: ``schema.VERSION`` of the writer.
        opscope_version: of the writer.
        format: always "opscope-rollup".
    """

    of: str
    part: str
    events: int
    lost: int
    steps_are: str
    step_ns: Mapping[str, int]
    tables: Mapping[str, Mapping[str, int]]
    version: int = VERSION
    opscope_version: str = field(default_factory=opscope_version)
    format: str = FORMAT

    def write(self, folder: Path) -> None:
        """Put it into the folder, in place of an earlier one."""
        unfinished = folder / unfinished_name(ROLLUP)
        unfinished.write_text(json.dumps(asdict(self), indent=1, sort_keys=True) + "\n")
        unfinished.replace(folder / ROLLUP)


def content_of(folder: Path) -> str:
    """A hash of the manifest in a part's folder; empty where there is none that can be read."""
    try:
        with open_in_folder(folder / MANIFEST) as file:
            return hashlib.sha256(file.read(_MANIFEST_BYTES)).hexdigest()
    except (OSError, TraceFormatError):
        return ""


def right_mark(folder: Path, of: Path) -> RollupMark | None:
    """The mark of the rollup in a folder; None where there is none that can be believed.

    Args:
        folder: with the rollup.
        of: with the trace; mostly the same.
    """
    mark = _read(folder)
    if mark is None or mark.tables.keys() != ROLLUP_TABLES.keys():
        return None
    if mark.part != of.name or not mark.of or mark.of != content_of(of):
        return None
    return mark if _has_files(folder, mark) else None


def _read(folder: Path) -> RollupMark | None:
    try:
        with open_in_folder(folder / ROLLUP) as file:
            said: dict[str, Any] = json.loads(file.read(_MOST_BYTES))
        if said["format"] != FORMAT or said["version"] != VERSION:
            return None
        tables = {
            str(name): {"rows": _count(table["rows"]), "bytes": _count(table["bytes"])}
            for name, table in said["tables"].items()
        }
        return RollupMark(
            of=str(said["of"]),
            part=str(said["part"]),
            events=_count(said["events"]),
            lost=_count(said["lost"]),
            steps_are=str(said["steps_are"]),
            step_ns={str(which): int(took) for which, took in said["step_ns"].items()},
            tables=tables,
            opscope_version=str(said["opscope_version"]),
        )
    except (OSError, TraceFormatError, ValueError, KeyError, TypeError, AttributeError):
        return None
    except RecursionError:
        return None


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("no number of rows or bytes")
    return value


def _has_files(folder: Path, mark: RollupMark) -> bool:
    try:
        return all(
            os.lstat(folder / f"{name}.parquet").st_size == table["bytes"]
            for name, table in mark.tables.items()
        )
    except OSError:
        return False
