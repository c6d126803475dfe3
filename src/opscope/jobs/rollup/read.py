"""Reads rollups without reading their traces."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from opscope.analysis.collectives.process_collectives import ProcessCollectives, ProcessGroup
from opscope.base.arrow import pa
from opscope.base.artefacts import unfinished_name
from opscope.base.input_file import checked_in_folder, open_in_folder, shown_path
from opscope.columns.causes import Cause
from opscope.columns.table import Table
from opscope.errors import TraceFormatError, UnreadableProcessError
from opscope.jobs.rollup.places import ProcessPlaces, places_of_table
from opscope.jobs.rollup.schema import (
    CAUSES,
    COLLECTIVE_NUMBERS,
    COLLECTIVES,
    LEDGER,
    PLACES,
    ROLLUP_TABLES,
    STEPS,
    STRAYS,
    STRAYS_SOURCE,
    VERSION,
)
from opscope.storage.interop import table_from_arrow
from opscope.storage.manifest import MANIFEST, ROLLUP, opscope_version
from opscope.storage.parquet import ParquetColumns
from opscope.storage.partition import part_of_folder
from opscope.timeline.arrays import Values
from opscope.timeline.period import Which

FORMAT = "opscope-rollup"
_MOST_BYTES = 1 << 20
_MANIFEST_BYTES = 1 << 22


@dataclass(frozen=True, kw_only=True)
class RollupMark:
    """Facts of a rollup, stored with it."""

    of: str  # SHA-256 hash of the trace's manifest
    part: str  # name of the folder of the trace
    events: int  # number of events
    lost: int  # data that was dropped, or that only a newer opscope can read
    steps_are: str  # what a step is, if the program does not mark steps; else empty
    step_ns: Mapping[str, int]  # mean duration of a step by period; -1 without steps
    tables: Mapping[str, Mapping[str, int]]  # rows and bytes of every file, by table name
    version: int = VERSION  # ``schema.VERSION`` of the writer
    opscope_version: str = field(default_factory=opscope_version)  # version of the writer
    format: str = FORMAT  # always "opscope-rollup"

    def write(self, folder: Path) -> None:
        """Write the file, in place of an earlier one."""
        unfinished = folder / unfinished_name(ROLLUP)
        unfinished.write_text(json.dumps(asdict(self), indent=1, sort_keys=True) + "\n")
        unfinished.replace(folder / ROLLUP)


def content_of(folder: Path) -> str:
    """Hash of the manifest in a part's folder; empty if it cannot be read."""
    try:
        with open_in_folder(folder / MANIFEST) as file:
            return hashlib.sha256(file.read(_MANIFEST_BYTES)).hexdigest()
    except (OSError, TraceFormatError):
        return ""


def right_mark(folder: Path, of: Path) -> RollupMark | None:
    """Mark of the rollup in ``folder`` if it is valid for the trace in ``of``, else None."""
    mark = _read(folder)
    if mark is None or mark.tables.keys() != ROLLUP_TABLES.keys():
        return None
    if mark.part != of.name or not mark.of or mark.of != content_of(of):
        return None
    return mark if _has_files(folder, mark) else None


def _read(folder: Path) -> RollupMark | None:
    try:
        with open_in_folder(folder / ROLLUP) as file:
            contents: dict[str, Any] = json.loads(file.read(_MOST_BYTES))
        if contents["format"] != FORMAT or contents["version"] != VERSION:
            return None
        tables = {
            str(name): {"rows": _count(table["rows"]), "bytes": _count(table["bytes"])}
            for name, table in contents["tables"].items()
        }
        return RollupMark(
            of=str(contents["of"]),
            part=str(contents["part"]),
            events=_count(contents["events"]),
            lost=_count(contents["lost"]),
            steps_are=str(contents["steps_are"]),
            step_ns={str(which): int(took) for which, took in contents["step_ns"].items()},
            tables=tables,
            opscope_version=str(contents["opscope_version"]),
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


_CAUSES = {cause.name.lower(): cause for cause in Cause}


@dataclass(frozen=True)
class Rollup:
    """The rollup of a process."""

    folder: Path  # folder of the rollup
    mark: RollupMark  # its stored facts

    @classmethod
    def of(cls, part: Path, folder: Path | None = None) -> Rollup | None:
        """The rollup of the trace in ``part`` if it is valid; ``folder``: where else it is."""
        mark = right_mark(folder or part, part)
        return None if mark is None else cls(folder or part, mark)

    def file(self, table: str) -> Path:
        """Path of the file of a table."""
        return checked_in_folder(self.folder / f"{table}.parquet")

    def table(self, name: str) -> Table:
        """One of its tables; UnreadableProcessError if it is damaged."""
        schema, rows = ROLLUP_TABLES[name], self.mark.tables[name]["rows"]
        try:
            with open_in_folder(self.folder / f"{name}.parquet") as file:
                return table_from_arrow(schema, ParquetColumns(file, rows, file.name))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(name) from error

    def places(self) -> ProcessPlaces:
        """Time of the process by place."""
        return places_of_table(self.table(PLACES.name), self.mark.tables[STEPS.name]["rows"])

    def collectives(self) -> ProcessCollectives:
        """The collectives of the process."""
        try:
            return _collectives_of(self.table(COLLECTIVES.name), self.table(LEDGER.name))
        except ValueError as error:
            raise self._damaged(COLLECTIVES.name) from error

    def causes_ns(self, which: Which) -> Values:
        """Time of a period by cause, shape (causes,)."""
        table = self.table(CAUSES.name)
        sums = np.zeros(len(Cause), dtype=np.int64)
        columns: list[Any] = [table[name].tolist() for name in ("period", "cause", "time_ns")]
        for period, cause, time_ns in zip(*columns, strict=True):
            if period == which.value and cause in _CAUSES:
                sums[_CAUSES[cause]] = time_ns
        return sums

    def _damaged(self, table: str) -> UnreadableProcessError:
        part = part_of_folder(Path(self.mark.part))
        file = shown_path(self.folder / f"{table}.parquet")
        why = f"{file} is damaged. Recompute it: `opscope ranks --rollup --again`."
        return UnreadableProcessError(why, part, why)


def _collectives_of(table: Table, ledger: Table) -> ProcessCollectives:
    """Collectives of one process from the stored table; ValueError if it is damaged."""
    texts = zip(table["group_name"].tolist(), table["group_ranks"].tolist(), strict=True)
    group_of_row = [
        ProcessGroup(name, tuple(map(int, ranks.split(","))) if ranks else ())
        for name, ranks in texts
    ]
    groups = tuple(sorted(set(group_of_row)))
    place = {group: row for row, group in enumerate(groups)}
    is_row = (ledger["source"] == STRAYS_SOURCE) & (ledger["what"] == STRAYS)
    return ProcessCollectives(
        **{name: table[name] for name in COLLECTIVE_NUMBERS},
        name=tuple(table["name"].tolist()),
        group=np.array([place[group] for group in group_of_row], dtype=np.int64),
        groups=groups,
        strays=int(ledger["value"][is_row].sum()),
    )
