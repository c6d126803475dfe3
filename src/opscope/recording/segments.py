"""Segments: parts that a long recording moves out of its file while it runs.

They are in a hidden folder beside the file. Each segment is a folder with the tables of one piece
and the decoder's state after it, renamed when it is complete. So another process can continue if
the draining process is killed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

import opscope._native as _native
from opscope.base.artefacts import SEGMENTS, LeftKind
from opscope.base.files import open_inside, read_inside, remove_inside
from opscope.base.input_file import unreadable
from opscope.base.locks import lock_alone, unlock
from opscope.base.untrusted_files import COUNT, ROW, TIME_NS, Shape, has_shape, parsed_json, reading
from opscope.columns.column import DURATION, Column, TableSchema
from opscope.columns.names import Names
from opscope.columns.schema import TABLES
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError
from opscope.recording.decoded import Decoded, read_decoded
from opscope.storage.interop import table_from_arrow, table_to_arrow
from opscope.storage.parquet import (
    QUICK,
    names_in,
    pq,
    read_table,
    read_whole,
    write_table,
)

RECORDS = 300_000  # records in a segment: the keeper has one segment in memory at a time
MARGIN_NS = 100_000_000
"""Newer records stay in the file: threads may still be writing some of that time."""

NEVER_DRAINED = ("gpu", "asyncio")
"""Recordings with these options stay in one file until they end: device work refers to calls in
earlier pieces, and an annotation over an await depends on all runs of its task. Detail stretches
with tasks are drained: each segment has a row per task, and annotations are not split by runs."""

Late = Mapping[str, npt.NDArray[Any]]


@contextmanager
def draining(recording: Path) -> Iterator[None]:
    """Lock a recording for moving it to segments; other processes wait."""
    folder = recording.with_suffix(SEGMENTS)
    folder.mkdir(exist_ok=True)
    inside = f"{folder.name}/{LeftKind.SEGMENTS.lock}"
    try:
        lock = open_inside(folder.parent, inside, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise unreadable(folder.parent / inside, error) from error
    try:
        lock_alone(lock)
        yield
    finally:
        unlock(lock)  # a child forked in between shares the lock
        os.close(lock)


@dataclass(frozen=True)
class RecordingSegment:
    """One piece of a recording, on disk."""

    folder: Path  # folder of the segment
    rows: Mapping[str, int]  # number of rows, by table
    first_event: int  # row of its first event in the whole recording
    is_last: bool  # whether no segment follows

    def table(self, name: str) -> Table:
        """The part of a table in this segment."""
        rows = self.rows.get(name, 0)
        with _reading(self.folder):
            table = read_table(self.folder, name, rows)
            if len(table) != rows:
                raise ValueError(f"{name} has {len(table)} rows, not {rows}")
        return table

    def names(self) -> Names:
        """Names that are new in this segment."""
        with _reading(self.folder):
            return names_in(read_whole(self.folder / "names.parquet"))

    def state(self) -> bytes:
        """State from which decoding continues."""
        with _reading(self.folder), open(open_inside(*_place(self.folder, _STATE)), "rb") as file:
            return file.read()

    def account(self) -> dict[str, Any]:
        """Facts about the recording at the end of this segment."""
        account: dict[str, Any] = _about(self.folder)["account"]
        return account

    def late(self) -> Late:
        """Newer values for events of earlier segments, by column."""
        with _reading(self.folder):
            table = table_from_arrow(_LATE, read_whole(self.folder / "late.parquet"))
            late = {column.name: table[column.name] for column in _LATE.columns}
            event, parent = late["event"], late["parent"]
            if len(event) and not 0 <= event.min() <= event.max() < self.first_event:
                raise ValueError("a late row refers to no earlier event")
            if ((parent < -1) | (parent >= event)).any() or (late["duration_ns"] < 0).any():
                raise ValueError("a late row has an impossible parent or duration")
        return late


_ABOUT, _STATE = "about.json", "state"
_LATE = TableSchema(
    "late",
    "newer values of an event in an earlier segment",
    (
        Column("event", "int32", "row in the whole recording", essential=True),
        Column("parent", "int32", "row of the parent, likewise", essential=True),
        Column("duration_ns", "int64", "as in events", **DURATION),
        Column("unfinished", "bool", "as in events", essential=True),
        Column("raised", "bool", "as in events", essential=True),
        Column("is_async", "bool", "as in events", essential=True),
    ),
)
_MOST_ABOUT_BYTES = 1 << 22
_NUMBER = (int, float)
_ABOUT_SHAPE: Shape = {
    "recording": str,
    "rows": dict,
    "first_event": ROW,
    "is_last": bool,
    "account": {
        "start_ns": TIME_NS,
        "end_ns": TIME_NS,
        "end_monotonic_ns": TIME_NS,
        "missing_blocks": COUNT,
        "fault": str,
        "notes": [[(str, *_NUMBER)]],
    },
}


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Report a damaged or incomplete segment as damage of that file."""
    with reading(folder):
        try:
            yield
        except OSError as error:
            raise ValueError(error.strerror or str(error)) from error


def _about(folder: Path) -> dict[str, Any]:
    with _reading(folder):
        about: dict[str, Any] = parsed_json(
            read_inside(*_place(folder, _ABOUT), _MOST_ABOUT_BYTES), _ABOUT_SHAPE
        )
        for name, rows in about["rows"].items():
            if name not in TABLES or not has_shape(rows, ROW):
                raise ValueError(f"it declares {rows} rows of {name}")
    return about


def _place(folder: Path, name: str) -> tuple[Path, str]:
    return folder.parent.parent, f"{folder.parent.name}/{folder.name}/{name}"


def segments_folder(recording: Path) -> Path:
    """Folder for segments of the recording in this file."""
    return recording.with_suffix(SEGMENTS)


def segments_of(recording: Path) -> list[RecordingSegment]:
    """Complete segments, in order."""
    folder = segments_folder(recording)
    with suppress(FileNotFoundError):
        return [_of(recording, entry) for entry in sorted(folder.iterdir()) if entry.name.isdigit()]
    return []


def _check_order(segments: Sequence[RecordingSegment]) -> None:
    """Raise unless each segment begins where the previous one ends, and the last one is last."""
    first = 0
    for segment, later in zip(segments, (*segments, None)[1:], strict=True):
        with _reading(segment.folder):
            if segment.first_event != first or (segment.is_last and later is not None):
                raise ValueError("it does not follow the previous segment")
        first += segment.rows.get("events", 0)


def _of(recording: Path, folder: Path) -> RecordingSegment:
    """The segment in a folder. Raises TraceFormatError if it is of another recording."""
    about = _about(folder)
    if about["recording"] != recording.name:
        raise TraceFormatError(
            f"{folder} is not a segment of {recording.name}. Move the file without its segments "
            "to a new folder, and recover it there."
        )
    return RecordingSegment(folder, about["rows"], about["first_event"], about["is_last"])


def remove_segments(recording: Path) -> None:
    """Remove segments that are no longer needed."""
    remove_inside(recording.parent, segments_folder(recording).name)


class Drain:
    """Moves a recording to segments; use inside ``draining``."""

    def __init__(self, recording: Path, prefixes: Sequence[str], into: Path | None = None) -> None:
        """``into``: folder for new segments; the recording is then not modified."""
        self._recording = recording
        self._into = into or segments_folder(recording)
        self._is_kept = into is None
        self.segments = segments_of(recording)
        self._decoder = _native.PieceDecoder(os.fspath(recording), list(prefixes))
        _check_order(self.segments)
        if self.segments:
            names = Names.joined([segment.names() for segment in self.segments])
            last = self.segments[-1]
            with reading(last.folder):
                self._decoder.restore(last.state(), names.offsets.tolist(), names.blob)
            if self._is_kept:  # the process that wrote the last segment may have died before this
                self._decoder.mark_spent()

    @property
    def is_done(self) -> bool:
        """Whether the whole recording is in segments."""
        return bool(self.segments) and self.segments[-1].is_last

    def is_behind(self) -> bool:
        """Whether another process has added segments."""
        number = len(self.segments)
        return (segments_folder(self._recording) / f"{number:06d}").exists()

    def next(self, is_last: bool = False) -> bool:
        """Add a segment, if there are enough records; returns whether it did."""
        if self.is_done:
            return False
        with reading(self._recording):
            piece = self._decoder.decode(RECORDS, MARGIN_NS, is_last)
        if piece is not None:
            self.segments.append(self._write(piece))
            if self._is_kept and not is_last:
                self._decoder.mark_spent()
        if not is_last or self.is_done:
            self._decoder.close()
        return piece is not None

    def finish(self) -> None:
        """Add segments until the whole recording is in them."""
        while not self.is_done:
            self.next(is_last=True)
        self._decoder.close()  # also if another process has added all segments

    def _write(self, piece: Any) -> RecordingSegment:
        number = len(self.segments)
        last = self.segments[-1] if self.segments else None
        first_event = 0 if last is None else last.first_event + last.rows.get("events", 0)
        folder = self._into / f"{number:06d}"
        unfinished = self._into / f"unfinished-{number:06d}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        rows = _write_tables(read_decoded(piece), unfinished)
        (unfinished / _STATE).write_bytes(self._decoder.state())
        pq.write_table(table_to_arrow(Table(_LATE, piece["late"])), unfinished / "late.parquet")
        about = {
            "recording": self._recording.name,
            "rows": rows,
            "first_event": first_event,
            "is_last": piece["is_last"],
            "account": {**piece["account"], "missing_blocks": piece["missing_blocks"]},
        }
        (unfinished / _ABOUT).write_text(json.dumps(about))
        unfinished.rename(folder)
        return RecordingSegment(folder, rows, first_event, piece["is_last"])


def _write_tables(decoded: Decoded, folder: Path) -> dict[str, int]:
    trace = TraceData(decoded.tables, decoded.names)
    rows = {name: len(table) for name, table in decoded.tables.items() if len(table)}
    for name in [*rows, "names"]:
        write_table(trace, name, folder, QUICK)
    return rows
