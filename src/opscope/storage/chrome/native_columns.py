"""Columns of a Chrome file from the native reader, in file order.

The file is read in pieces: memory has at most one, and the longest value of the text.
"""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import opscope._native as _native
from opscope.base.input_file import shown_path, status_of
from opscope.base.memory_limit import require_memory
from opscope.columns.ledger import Doubt
from opscope.columns.table import ListColumn
from opscope.errors import TraceFormatError
from opscope.storage.chrome.vocabulary import meaning_of, parsed, vocabulary
from opscope.storage.unpacked_file import pieces_of

LOOKUP_IDS = ("external_id", "correlation_id", "python_id", "python_parent_id")
"""Ids by which events of one file refer to each other."""

WITHOUT_SIZE = "memory events have a missing or impossible size, and count as 0 bytes"
ENDS_BEFORE_BEGIN = "spans end before they begin, and have duration 0"

Columns = dict[str, Any]


class CollectedEvents:
    """All data of one file, before steps that need the whole file (``assemble``).

    Attributes:
        texts: name to row of the name table.
        threads: (process, thread) as in the file, of every row of ``threads``.
        thread_names: as in the file, "" without one.
        processes: names of processes.
        labels: labels of processes, as in "GPU 0".
        owners: processes of device activities; ``gpu["process"]`` is the row.
        spans: columns; also of ``allocations``, ``gpu``, ``overheads``, ``tensors`` and
            ``scalars``, whose ``event`` is the row of a span.
        flows: ends of arrows between spans: id, thread, time, 1 for the target, 1 between ranks.
        launch_arrows: ids of the ends of arrows from launches to device activities.
        skipped: number of omitted events by reason.
        not_shown: number of events without a table, by type.
        not_exported: rows of the recording's tables that the file has no room for.
        marks: number of rows for the begin and end of the profiler that wrote the file.
        is_cut: the end of the file is missing.
    """

    def __init__(self, reader: _native.ChromeReader) -> None:
        """Take the columns of a file from its reader."""
        data = reader.take()
        self.texts: dict[str, int] = {text: row for row, text in enumerate(data["texts"])}
        self.threads = [(_label(process), _label(thread)) for process, thread, _ in data["threads"]]
        self.thread_names: list[str] = [name for _, _, name in data["threads"]]
        self.processes = {_label(process): name for process, name, _ in data["processes"] if name}
        self.labels = {_label(process): label for process, _, label in data["processes"] if label}
        self.owners = [_label(process) for process in data["owners"]]
        self.categories: list[str] = data["categories"]
        self.spans = _columns(data["spans"])
        self.allocations = _columns(data["allocations"])
        self.gpu = _columns(data["gpu"])
        self.overheads = _columns(data["overheads"])
        self.tensors = _columns(data["tensors"])
        self.scalars = _columns(data["scalars"])
        self.flows = _columns(data["flows"])
        self.launch_arrows: npt.NDArray[np.int64] = data["launch_arrows"]
        self.skipped = _skipped(data)
        self.not_shown = _not_shown(data)
        self.not_exported: dict[str, int] = {}
        self.doubts = [
            Doubt(ENDS_BEFORE_BEGIN, data["ends_before_beginning"]),
            Doubt(WITHOUT_SIZE, data["without_size"], len(self.allocations["time_ns"])),
        ]
        self.is_cut = reader.is_cut
        self.seen: int = data["seen"]
        self.marks: int = data["marks"]
        self.without_duration: int = data["without_duration"]
        self.mended = reader.mended_names
        self.overlaps = self.overlap_ns = 0

    def count_overlaps(self, overlap_ns: npt.NDArray[np.int64]) -> None:
        """Store the number and sum of overlaps; ``overlap_ns``: of each span, 0 for none."""
        self.overlaps = int(np.count_nonzero(overlap_ns))
        self.overlap_ns = int(overlap_ns.sum())

    def intern(self, text: str) -> int:
        """The row of ``text`` in the name table."""
        return self.texts.setdefault(text, len(self.texts))

    def keep(self, name: str, keep: npt.NDArray[np.bool_]) -> None:
        """Keep some rows of columns; tensors and scalars of other spans are dropped."""
        setattr(self, name, rows_of(getattr(self, name), np.flatnonzero(keep)))
        if name != "spans":
            return
        new_row = np.cumsum(keep, dtype=np.int32) - 1
        for name_of_arguments in ("tensors", "scalars"):
            columns = getattr(self, name_of_arguments)
            columns = rows_of(columns, np.flatnonzero(keep[columns["event"]]))
            setattr(self, name_of_arguments, {**columns, "event": new_row[columns["event"]]})

    def of_process(
        self, threads: npt.NDArray[np.bool_], work: npt.NDArray[np.bool_]
    ) -> CollectedEvents:
        """The collected events of one process."""
        result = copy(self)
        result.texts, result.skipped = dict(self.texts), self.skipped.copy()
        result.not_shown, result.doubts = self.not_shown.copy(), [*self.doubts]
        result.overheads = dict(self.overheads)
        result.launch_arrows = self.launch_arrows[:0]  # their process is unknown
        result.keep("gpu", work)
        for name in ("spans", "allocations", "flows"):
            result.keep(name, threads[getattr(self, name)["thread"]])
        new_row = np.cumsum(threads, dtype=np.int32) - 1
        for name in ("spans", "allocations", "flows"):
            columns = getattr(result, name)
            setattr(result, name, {**columns, "thread": new_row[columns["thread"]]})
        rows = np.flatnonzero(threads).tolist()
        result.threads = [self.threads[row] for row in rows]
        result.thread_names = [self.thread_names[row] for row in rows]
        return result


def rows_of(columns: Columns, rows: npt.NDArray[np.int64]) -> Columns:
    """These rows of all columns, in this order."""
    return {
        name: column.take(rows) if isinstance(column, ListColumn) else column[rows]
        for name, column in columns.items()
    }


def _columns(columns: Mapping[str, Any]) -> Columns:
    return {
        name: ListColumn(*column) if isinstance(column, tuple) else column
        for name, column in columns.items()
    }


def _label(label: tuple[str, bool]) -> Any:
    """Process or thread id in the file: a JSON value, or the text of a list or object."""
    text, is_json = label
    return parsed(text) if is_json else text


def _skipped(data: Mapping[str, Any]) -> Counter[str]:
    skipped: Counter[str] = Counter()
    for reason, count in (
        ("no usable time", data["without_time"]),
        ("an end without a beginning", data["ends_without_beginning"]),
    ):
        if count:
            skipped[reason] = count
    return skipped


def _not_shown(data: Mapping[str, Any]) -> Counter[str]:
    by_type = Counter({"instants": data["other_instants"], "samples of counters": data["counters"]})
    for what, counts in (("rows of phase", "other_phases"), ("arrows of kind", "other_flows")):
        for text, count in data[counts]:
            by_type[f"{what} {text[:20]!r}"] += count
    return +by_type


PIECE_BYTES = 1 << 20
_MEMORY_CHECK_BYTES = 1 << 26
"""Bytes between two checks of available memory: the unpacked size of a gzip file is unknown."""


def read_json(path: Path) -> tuple[_native.ChromeReader, dict[str, Any]]:
    """Read a Chrome JSON, plain or packed; of a truncated file, the complete part.

    One defect is repaired: names with quotes that Kineto did not escape (``"name": "f.py(0):
    "x""``).

    Raises:
        TraceFormatError: the file is missing, damaged, truncated or not a Chrome trace.
        InsufficientMemoryError: it does not fit in memory.
    """
    reader = _read(path, repairs_names=False)
    if reader.problem is not None:
        reader = _read(path, repairs_names=True)
    if reader.problem is not None:
        raise TraceFormatError(_problem_text(path, reader.problem))
    if not reader.has_events:
        raise TraceFormatError(
            f"{path} is JSON but not a Chrome trace: it has no traceEvents. opscope.load() takes "
            "trace folders written by opscope and Chrome JSON written by export_chrome_trace()."
        )
    metadata = parsed(reader.others or "{}")
    return reader, metadata if isinstance(metadata, dict) else {}


def _read(path: Path, repairs_names: bool) -> _native.ChromeReader:
    reader = _native.ChromeReader(vocabulary(), meaning_of, repairs_names)
    status = status_of(path)
    require_memory(0 if status is None else status.st_size, f"reading {shown_path(path)}")
    read_bytes = measured_bytes = 0
    for piece in _without_padding(_utf8_pieces(path)):
        if not reader.add(piece):
            break
        read_bytes += len(piece)
        if read_bytes - measured_bytes >= _MEMORY_CHECK_BYTES:
            measured_bytes = read_bytes
            require_memory(read_bytes // 2, f"reading {shown_path(path)}")
    reader.finish()
    return reader


def _utf8_pieces(path: Path) -> Iterator[bytes]:
    """The text of a file as UTF-8, with replacements for invalid bytes."""
    decoder: codecs.IncrementalDecoder | None = None
    is_plain = False
    for piece in pieces_of(path, PIECE_BYTES):
        if decoder is None:
            encoding = json.detect_encoding(piece)
            decoder = codecs.getincrementaldecoder(encoding)("replace")
            is_plain = encoding == "utf-8"
        if is_plain and piece.isascii() and not decoder.getstate()[0]:
            yield piece
        else:
            yield decoder.decode(piece).encode()
    if decoder is not None:
        yield decoder.decode(b"", final=True).encode()


def _without_padding(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Drop zeros at the end of a file, which a crash of the machine may leave."""
    zeros = 0
    for piece in pieces:
        text = piece.rstrip(b"\0")
        if text:
            yield bytes(zeros) + text if zeros else text
            zeros = 0
        zeros += len(piece) - len(text)


def _problem_text(path: Path, problem: _native.JsonProblem) -> str:
    place = f"line {problem['line']}, column {problem['column']}"
    if problem["is_at_end"] and not any(map(bytes.strip, _without_padding(_utf8_pieces(path)))):
        return f"{path} is empty. Its writer was probably interrupted: export the trace again."
    if problem["is_at_end"]:
        return (
            f"{path} stops in the middle of the JSON, at {place}: its writer was interrupted or "
            "the disk was full. Export the trace again."
        )
    if problem["what"] == "Extra data":
        return (
            f"{path} continues after the end of its JSON, at {place}. If it contains several "
            "traces, split it into one file for each: their clocks may differ."
        )
    if path.suffix == ".py":
        return f"{path} is a program. `opscope run {path}` records it."
    return (
        f"{path} is not JSON: {problem['what']} at {place}. opscope.load() takes trace folders "
        "written by opscope and Chrome JSON (.json, .json.gz)."
    )
