"""Timing annotations with CUDA events, where CUPTI cannot be had and the user asks for it.

At the beginning and end of every annotation an event goes onto the thread's current stream; the
time between them is how long the device took for all that the annotation put there, waiting
included. That is no kernel's time, so the spans say how they were timed in their names, and count
as no device work.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from opscope import _native
from opscope.recording.decoded import Decoded
from opscope.recording.gpu_collecting import wait_for_devices
from opscope.trace.codes import DeviceType, GpuKind
from opscope.trace.names import Names
from opscope.trace.nesting import enclosing
from opscope.trace.schema import TABLES, EventKind
from opscope.trace.table import Table

LABEL = " (timed by CUDA events)"
MOST_SPANS = 200_000


class EventSource(Protocol):
    """What puts events onto a device's streams."""

    def record(self) -> tuple[Any, int, int] | None:
        """An event on the current stream, with its device and stream; None where that cannot be."""

    def elapsed_ns(self, begin: Any, end: Any) -> int:
        """Between two events of a device that have happened."""

    def wait(self) -> None:
        """Until all events have happened."""


class CudaEvents:
    """torch's events."""

    def record(self) -> tuple[Any, int, int] | None:
        """None without CUDA in use, and while a graph is captured, which could not be timed."""
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return None
        try:
            if torch.cuda.is_current_stream_capturing():
                return None
            stream = torch.cuda.current_stream()
            event = torch.cuda.Event(enable_timing=True)
            event.record(stream)
        except RuntimeError:  # the program will hear of a failed device from its own next call
            return None
        return event, stream.device_index, stream.stream_id

    def elapsed_ns(self, begin: Any, end: Any) -> int:
        """To about half a microsecond, which is as fine as events are."""
        return int(begin.elapsed_time(end) * 1e6)

    def wait(self) -> None:
        """For the devices."""
        wait_for_devices()


event_source: Callable[[], EventSource] = CudaEvents


@dataclass
class _Span:
    name: str
    thread: int
    time_ns: int  # within the annotation, on the host
    begin: tuple[Any, int, int]
    end: tuple[Any, int, int] | None = None


class EventTiming:
    """From ``begin`` to ``end``, every annotation of the process is timed."""

    _active: ClassVar[EventTiming | None] = None

    def __init__(self) -> None:
        self._source = event_source()
        self._spans: list[_Span] = []
        self._left_out = 0
        self._anchors: dict[int, tuple[Any, int]] = {}  # by device: an event, and when it happened
        self._open = threading.local()
        self._replaced: list[tuple[type, str, Any]] = []

    def begin(self) -> bool:
        """Start timing what begins from now on; False if another does already."""
        if EventTiming._active is not None:
            return False
        EventTiming._active = self
        profiler: Any = sys.modules.get("torch.autograd.profiler")
        kinds = [_native.Annotation, *([profiler.record_function] if profiler else [])]
        for kind in kinds:
            self._replace(kind, "__enter__", self._entering)
            self._replace(kind, "__exit__", self._leaving)
        return True

    def end(self) -> None:
        """Stop, and wait until everything timed has run."""
        for kind, name, original in reversed(self._replaced):
            setattr(kind, name, original)
        self._replaced.clear()
        if EventTiming._active is self:
            EventTiming._active = None
        self._source.wait()

    def _replace(self, kind: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(kind, name)
        self._replaced.append((kind, name, original))
        setattr(kind, name, functools.wraps(original)(make(original)))

    def _entering(self, original: Any) -> Callable[..., Any]:
        def entered(annotation: Any) -> Any:
            result = original(annotation)
            begin = self._begin_event() if len(self._spans) < MOST_SPANS else None
            if begin is None:
                self._left_out += 1
                self._stack().append(None)
                return result
            span = _Span(annotation.name, threading.get_native_id(), time.time_ns(), begin)
            self._spans.append(span)
            self._stack().append(span)
            return result

        return entered

    def _leaving(self, original: Any) -> Callable[..., Any]:
        def left(annotation: Any, *exception: Any) -> Any:
            stack = self._stack()
            span = stack.pop() if stack else None
            if span is not None:
                span.end = self._source.record()
            return original(annotation, *exception)

        return left

    def _stack(self) -> list[_Span | None]:
        if not hasattr(self._open, "spans"):
            self._open.spans = []
        spans: list[_Span | None] = self._open.spans
        return spans

    def _begin_event(self) -> tuple[Any, int, int] | None:
        """The first on a device is for comparing its time with the host's; another follows then."""
        event = self._source.record()
        if event is None or event[1] in self._anchors:
            return event
        self._source.wait()
        self._anchors[event[1]] = (event[0], time.time_ns())
        return self._source.record()

    def added_to(self, decoded: Decoded) -> Decoded:
        """With the spans as the ``gpu`` table, names included."""
        rows = [row for row in map(self._row, self._spans) if row is not None]
        left_out = self._left_out + len(self._spans) - len(rows)
        rows.sort(key=lambda row: row["start_ns"])
        texts = list(dict.fromkeys(row["text"] for row in rows))
        number = {text: len(decoded.names) + i for i, text in enumerate(texts)}
        columns: dict[str, Any] = {
            name: [row[name] for row in rows]
            for name in ("kind", "start_ns", "duration_ns", "device_type", "device_index", "stream")
        }
        columns["name"] = [number[row["text"]] for row in rows]
        columns["launch"] = _annotations_of(decoded, rows)
        timed = {
            "annotations timed by CUDA events": len(rows),
            "annotations not timed": left_out,
        }
        names = decoded.names.followed_by(Names.from_strings(texts))
        decoded = replace(decoded, names=names, gpu_timed=timed)
        return decoded.with_tables(gpu=Table(TABLES["gpu"], columns))

    def _row(self, span: _Span) -> dict[str, Any] | None:
        anchor = self._anchors.get(span.begin[1])
        if span.end is None or anchor is None or span.end[1] != span.begin[1]:
            return None
        event, host_ns = anchor
        start_ns = host_ns + self._source.elapsed_ns(event, span.begin[0])
        return {
            "kind": GpuKind.ANNOTATION,
            "text": span.name + LABEL,
            "start_ns": start_ns,
            "duration_ns": self._source.elapsed_ns(span.begin[0], span.end[0]),
            "device_type": DeviceType.CUDA,
            "device_index": span.begin[1],
            "stream": span.begin[2],
            "span": span,
        }


def _annotations_of(decoded: Decoded, rows: list[dict[str, Any]]) -> Any:
    """The annotation that each row is of."""
    events, threads = decoded.events, decoded.tables["threads"]["system_thread_id"].tolist()
    thread = [
        threads.index(row["span"].thread) if row["span"].thread in threads else -1 for row in rows
    ]
    spans = (
        events["thread"].astype(np.int64),
        events["start_ns"],
        events["start_ns"] + events["duration_ns"],
        events["parent"],
    )
    times = np.array([row["span"].time_ns for row in rows], dtype=np.int64)
    found = enclosing(spans, np.array(thread, dtype=np.int64), times)
    while (inside := _not_annotations(events, found)).any():
        found[inside] = events["parent"][found[inside]]
    return found


def _not_annotations(events: Table, found: Any) -> Any:
    return (found >= 0) & (events["kind"][found] != EventKind.ANNOTATION)
