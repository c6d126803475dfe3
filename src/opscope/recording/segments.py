"""Segments: what a long recording has moved out of its file, piece by piece, while it goes on.

Beside the file of a recording there is a hidden folder for them. Each segment is a folder of its
own, renamed when it is whole, with the tables of one piece and with what decoding needs to go on
after it. So whoever drains may be killed at any time, and another goes on.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.errors import TraceFormatError
from opscope.leftover.artefacts import SEGMENTS
from opscope.leftover.files import open_inside, read_inside, remove_inside
from opscope.recording.decoded import Decoded, read_decoded
from opscope.trace.input_file import unreadable
from opscope.trace.names import Names
from opscope.trace.row_group_files import read_part, write_part
from opscope.trace.table import Table
from opscope.trace.trace import Trace

RECORDS = 300_000
"""About so many records are a segment: the keeper has one in memory at a time."""

MARGIN_NS = 100_000_000
"""What is newer than this stays in the file: threads may be writing what is older than that."""

NEVER_DRAINED = ("gpu", "cuda_events", "asyncio")
"""Recordings with these options stay in their file until they end: work of devices is linked to
calls that may lie in pieces before, what CUDA events time is in the memory of the program, and runs
of tasks are told from those before."""

Late = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class RecordingSegment:
    """One piece of a recording, on disk.

    Attributes:
        folder: where it is.
        rows: of its tables, by name.
        first_event: row that its first event has in the whole recording.
        is_last: nothing comes after it.
    """

    folder: Path
    rows: Mapping[str, int]
    first_event: int
    is_last: bool

    @staticmethod
    def at(folder: Path) -> RecordingSegment:
        """Read what it says of itself."""
        about = json.loads(_checked(folder))
        return RecordingSegment(folder, about["rows"], about["first_event"], about["is_last"])

    def table(self, name: str) -> Table:
        """One of its tables."""
        return read_part(self.folder, name, self.rows.get(name, 0))

    def names(self) -> Names:
        """Those that it has first."""
        with np.load(self.folder / _STATE) as state:
            return Names(state["name_offsets"], state["name_text"].tobytes())

    def state(self) -> bytes:
        """What decoding goes on with."""
        with np.load(self.folder / _STATE) as state:
            return bytes(state["state"].tobytes())

    def account(self) -> dict[str, Any]:
        """What was known of the recording then."""
        found: dict[str, Any] = json.loads(_checked(self.folder))["account"]
        return found

    def late(self) -> Late:
        """Rows of events in segments before, as they were known to be when this was written."""
        with np.load(self.folder / _LATE) as rows:
            return {name: rows[name] for name in rows.files}


_ABOUT, _STATE, _LATE = "about.json", "state.npz", "late.npz"
_MOST_ABOUT_BYTES = 1 << 22


def _checked(folder: Path) -> bytes:
    """What a segment says of itself; its other files are plain ones, too.

    Raises:
        TraceFormatError: they are not, or not all there.
    """
    place, inside = folder.parent.parent, f"{folder.parent.name}/{folder.name}"
    try:
        for name in (_STATE, _LATE):
            os.close(open_inside(place, f"{inside}/{name}"))
        return read_inside(place, f"{inside}/{_ABOUT}", _MOST_ABOUT_BYTES)
    except OSError as error:
        raise unreadable(Path(error.filename or folder), error) from error


def segments_folder(recording: Path) -> Path:
    """Where those of the recording in this file are."""
    return recording.with_suffix(SEGMENTS)


def segments_of(recording: Path) -> list[RecordingSegment]:
    """Those that are whole, in order."""
    folder = segments_folder(recording)
    with suppress(FileNotFoundError):
        return [_of(recording, entry) for entry in sorted(folder.iterdir()) if entry.name.isdigit()]
    return []


def _of(recording: Path, folder: Path) -> RecordingSegment:
    """The segment in a folder, which says of which recording it is.

    Raises:
        TraceFormatError: it is of another one, or damaged.
    """
    if json.loads(_checked(folder)).get("recording") != recording.name:
        raise TraceFormatError(
            f"{folder} is no segment of {recording.name}. Move the file without its segments to a "
            "new folder, and recover it there."
        )
    return RecordingSegment.at(folder)


def remove_segments(recording: Path) -> None:
    """They are elsewhere now."""
    remove_inside(recording.parent, segments_folder(recording).name)


class Drain:
    """Moves a recording to segments; to be used while ``draining`` it."""

    def __init__(self, recording: Path, prefixes: Sequence[str], into: Path | None = None) -> None:
        """``into``: a folder for what it adds, where the recording itself is to stay as it is."""
        self._recording = recording
        self._into = into or segments_folder(recording)
        self._is_kept = into is None
        self.segments = segments_of(recording)
        self._decoder = _native.PieceDecoder(os.fspath(recording), list(prefixes))
        if self.segments:
            names = Names.joined([segment.names() for segment in self.segments])
            self._decoder.restore(self.segments[-1].state(), names.offsets.tolist(), names.blob)
            if self._is_kept:  # whoever wrote the last one may not have come to this
                self._decoder.mark_spent()

    @property
    def is_done(self) -> bool:
        """All is in segments."""
        return bool(self.segments) and self.segments[-1].is_last

    def is_behind(self) -> bool:
        """Whether another process has added segments."""
        number = len(self.segments)
        return (segments_folder(self._recording) / f"{number:06d}").exists()

    def next(self, is_last: bool = False) -> bool:
        """Add a segment, if there is enough for one.

        Args:
            is_last: the recording has ended: the rest is one, however little it is.
        """
        if self.is_done:
            return False
        piece = self._decoder.decode(RECORDS, MARGIN_NS, is_last)
        if piece is not None:
            self.segments.append(self._write(piece))
            if self._is_kept and not is_last:
                self._decoder.mark_spent()
        if not is_last or self.is_done:
            self._decoder.close()
        return piece is not None

    def finish(self) -> None:
        """Add segments until all is in them."""
        while not self.is_done:
            self.next(is_last=True)

    def _write(self, piece: Any) -> RecordingSegment:
        number = len(self.segments)
        last = self.segments[-1] if self.segments else None
        first_event = 0 if last is None else last.first_event + last.rows.get("events", 0)
        folder = self._into / f"{number:06d}"
        unfinished = self._into / f"unfinished-{number:06d}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        rows = _write_tables(read_decoded(piece), unfinished)
        np.savez(
            unfinished / _STATE,
            state=np.frombuffer(self._decoder.state(), np.uint8),
            name_offsets=piece["name_offsets"],
            name_text=np.frombuffer(piece["name_text"], np.uint8),
        )
        np.savez(unfinished / _LATE, **piece["late"])
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
    trace = Trace(decoded.tables, decoded.names)
    rows = {name: len(table) for name, table in decoded.tables.items() if len(table)}
    for name in rows:
        write_part(trace, name, folder)
    return rows
