"""The folder of a trace: one sub-folder per process, and the manifest that completes it.

    trace/
      rank=00000/
        manifest.json      versions; rows, bytes, and bytes in memory of every table
        names.parquet      all text
        events.parquet     ... one file per table that has rows
        rollup.json        for a job: manifest of the rollup, see ``jobs/rollup/``
        rollup_steps.parquet   ... and its tables
      process=01234/       a process without a rank, see ``processes.py``
      processes.jsonl      begin and end of every process, if there were several

A rank is written under a hidden name beside its final one and renamed when it is complete, so a
folder called ``rank=N`` is always complete.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from opscope.base.artefacts import LeftKind, below, find
from opscope.base.input_file import checked_in_folder, open_in_folder, status_of
from opscope.columns.schema import SCHEMA_VERSION
from opscope.errors import TraceFormatError
from opscope.storage.partition import RANK, Partition, cycle_folders, partition_folders
from opscope.storage.remote import complete

FORMAT = "opscope-trace"
MANIFEST = "manifest.json"
PROCESSES = "processes.jsonl"
_MAX_BYTES = 1 << 22  # size limit of a manifest, which has a few numbers per table
_LIMIT = 1 << 62  # of any number
_MAX_NAMES = 5
_TABLE = re.compile(r"[a-z0-9_]+")
ROLLUP = "rollup.json"
"""Manifest of the rollup; with ``rollup_*.parquet``, rebuilt when it does not match the tables."""
_ROLLUP = re.compile(r"\.?rollup(_[a-z]+\.parquet|\.json)(\..*)?")


def opscope_version() -> str:
    """The version of the running opscope, whatever the program's ``sys.path``."""
    return str(vars(sys.modules["opscope"]).get("__version__", "unknown"))


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Manifest:
    """Facts about the folder of a rank.

    Attributes:
        tables: rows, bytes, and bytes in memory (0: unknown) of every file, by table name.
        rank: rank in the job; 0 without one.
        schema_version: ``columns.schema.SCHEMA_VERSION`` of the writer.
        opscope_version: version of the writer.
        created: time of writing, UTC, ISO 8601.
        format: always "opscope-trace".
    """

    tables: Mapping[str, Mapping[str, int]]
    rank: int
    schema_version: int = SCHEMA_VERSION
    opscope_version: str = field(default_factory=opscope_version)
    created: str = field(default_factory=_now)
    format: str = FORMAT

    def write(self, folder: Path) -> None:
        """Write ``manifest.json`` into ``folder``."""
        text = json.dumps(asdict(self), indent=1, sort_keys=True)
        (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def rank_folders(path: Path) -> dict[int, Path]:
    """The folders named ``rank=N`` in ``path``, by N; empty if there are none."""
    folders = partition_folders(path)
    return {part.number: folder for part, folder in folders.items() if part.kind == RANK}


def is_opscope_rank(folder: Path) -> bool:
    """Whether opscope (any version) wrote ``folder`` as a rank."""
    try:
        return bool(_parse(folder)["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def foreign_entry(folder: Path) -> str:
    """Name of an entry of a folder that does not belong to a trace; empty if there is none.

    Cycles of a schedule are traces of their own, which a trace beside them leaves as they are.
    """
    entries = list(folder.iterdir())
    parts = partition_folders(folder).values()
    ours = {*filter(is_opscope_rank, parts), *cycle_folders(folder), folder / PROCESSES}
    foreign = (one.name for one in entries if one not in ours and not one.name.startswith("."))
    return next(foreign, "")


def own_files(folder: Path) -> list[str]:
    """Names of the files that opscope, of any version, wrote into a rank's folder.

    A manifest of unknown origin must not name files outside the folder.
    """
    try:
        tables = list(_parse(folder)["tables"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        tables = []
    table_files = [f"{name}.parquet" for name in tables if _TABLE.fullmatch(str(name))]
    rollup_files = [entry.name for entry in folder.iterdir() if _ROLLUP.fullmatch(entry.name)]
    return [MANIFEST, *table_files, *rollup_files]


def _parse(folder: Path) -> dict[str, Any]:
    with open_in_folder(folder / MANIFEST) as file:
        text = file.read(_MAX_BYTES + 1)
    if len(text) > _MAX_BYTES:
        raise ValueError(f"it has more than {_MAX_BYTES:,} bytes")
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def _no_manifest(folder: Path) -> str:
    cycles = cycle_folders(folder)
    if cycles:
        return (
            f"{folder} contains several cycles of a schedule, each a trace. Choose one: "
            f"{cycles[0]}" + (f" to {cycles[-1].name}." if len(cycles) > 1 else ".")
        )
    if inside := _traces_in(folder):
        return f"{folder} is not a trace, but contains some. Choose one: {_first_of(inside)}."
    if rings := _processes_with_rings(folder):
        return (
            f"{folder} has no dump yet, only the ring file of a flight recorder, of process "
            f"{_first_of(rings)}. If the process runs and listens, request a dump with `opscope "
            "attach --dump PID`; if it was killed, run `opscope doctor --recover FOLDER`."
        )
    return (
        f"{folder} is not a trace: it has no {MANIFEST}. Check the path; if files were copied "
        "one by one, copy the whole folder again."
    )


def _first_of(names: list[str]) -> str:
    hidden = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {hidden} more" if hidden > 0 else "")


def _traces_in(folder: Path) -> list[str]:
    with suppress(OSError, TraceFormatError):
        return [str(entry) for entry in sorted(folder.iterdir()) if partition_folders(entry)]
    return []


def _processes_with_rings(folder: Path) -> list[str]:
    with suppress(OSError):
        return sorted({str(ring.process) for ring in find(folder, LeftKind.RING)}, key=int)
    return []


def check_files(folder: Path) -> None:
    """Check that the trace of a part is complete, without reading its files."""
    complete(folder)
    for name, table in read_manifest(folder).tables.items():
        file = folder / f"{name}.parquet"
        status = status_of(file)
        if status is None:
            raise damaged_file(file, "it is missing")
        checked_in_folder(file)
        if status.st_size != table["bytes"]:
            values = f"it has {status.st_size} bytes instead of {table['bytes']}"
            raise damaged_file(file, values)


def damage_of(folder: Path) -> str:
    """Message of :func:`check_files`; empty if the files are complete."""
    try:
        check_files(folder)
    except TraceFormatError as error:
        return str(error)
    return ""


def damaged_file(file: Path, problem: str) -> TraceFormatError:
    """Error for a file of a trace that cannot be read."""
    return TraceFormatError(
        f"{file} is damaged: {problem}. Copy the whole trace folder again, or record again."
    )


def read_manifest(folder: Path) -> Manifest:
    """Read and check the manifest of one rank.

    Raises:
        TraceFormatError: it is missing, damaged, not opscope's, or of a newer schema.
    """
    file = folder / MANIFEST
    try:
        parsed = _parse(folder)
        version = parsed["schema_version"]
        if parsed["format"] != FORMAT or type(version) is not int:
            raise ValueError("it does not describe an opscope trace")
        tables = {
            str(name): {
                "rows": _count(table["rows"]),
                "bytes": _count(table["bytes"]),
                "memory_bytes": _count(table.get("memory_bytes", 0)),
            }
            for name, table in parsed["tables"].items()
        }
        rank = _count(parsed["rank"])
    except FileNotFoundError as error:
        raise TraceFormatError(_no_manifest(folder)) from error
    except TraceFormatError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise TraceFormatError(
            f"{file} cannot be read as a trace's manifest ({error}). The folder is damaged or was "
            "not written by opscope: copy it again or record again."
        ) from error
    if version > SCHEMA_VERSION:
        raise TraceFormatError(
            f"{folder} was written by opscope {parsed.get('opscope_version', '?')} with schema "
            f"version {version}; this opscope reads versions up to {SCHEMA_VERSION}. Upgrade with: "
            "pip install -U opscope."
        )
    created, writer = str(parsed.get("created", "")), str(parsed.get("opscope_version", ""))
    return Manifest(tables, rank, version, writer, created)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _LIMIT:
        raise ValueError(f"{str(value)[:40]!r} is not a number of rows, bytes or a rank")
    return value


def unfinished_recordings(folder: Path) -> list[Path]:
    """Files of unfinished recordings in ``folder``, oldest first."""
    return [artefact.path for artefact in find(folder, LeftKind.STREAM)]


def unfinished_below(folder: Path) -> Iterator[Path]:
    """Unfinished recordings in ``folder`` and in its cycles."""
    return (artefact.path for artefact in below(folder, LeftKind.STREAM))


def is_later(recording: Path, part: Partition) -> bool:
    """Whether a recording is newer than the trace of that part beside it; True without a trace."""
    manifest = recording.parent / part.folder_name / MANIFEST
    try:
        return recording.stat().st_mtime_ns > manifest.stat().st_mtime_ns
    except FileNotFoundError:
        return recording.exists()
