"""speedscope's file format: one evented profile per thread and stream, for speedscope.app.

Schema: https://www.speedscope.app/file-format-schema.json. Frames must open and close in stack
order; the lines of ``timeline.timeline`` guarantee that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.base.progress import report_progress
from opscope.columns.trace_data import TraceData
from opscope.export.format import Format
from opscope.export.output_file import to_json, write_file
from opscope.timeline.timeline import Placement, place_events, place_gpu
from opscope.timeline.tree.frame_text import own_texts
from opscope.timeline.tree.line_nesting import Line

Values = npt.NDArray[np.int64]
Frames = npt.NDArray[np.signedinteger[Any]]

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_SPANS_PER_BLOCK = 20_000


def write_speedscope(trace: TraceData, path: str | os.PathLike[str], name: str = "opscope") -> None:
    """Write ``trace`` to ``path`` (by convention ``.speedscope.json``), times in nanoseconds."""
    write_file(path, (text.encode() for text in speedscope_texts(trace, name)))


def speedscope_texts(trace: TraceData, name: str) -> Iterator[str]:
    """The file in pieces."""
    label, texts = own_texts(trace)
    gpu = trace.table("gpu")
    used, gpu_label = np.unique(gpu["name"], return_inverse=True)
    frames = [*texts, *(trace.names[row] for row in used)]
    yield f'{{"$schema":"{_SCHEMA}","exporter":"opscope","name":{to_json(name)},"shared":{{'
    yield f'"frames":{to_json([{"name": text or "(no name)"} for text in frames])}}},"profiles":['
    sources: list[tuple[Placement, Values, Frames]] = [
        (place_events(trace), trace.events["start_ns"], label),
        (place_gpu(trace), gpu["start_ns"], gpu_label.reshape(-1) + len(texts)),
    ]
    origin = min((int(start.min()) for _, start, _ in sources if len(start)), default=0)
    separator, done, row_count = "", 0, len(label) + len(gpu)
    for placement, start, frame in sources:
        order, begin = placement.by_line()
        for i, line in enumerate(placement.lines):
            rows = order[begin[i] : begin[i + 1]]
            if len(rows):
                yield separator
                yield from _profile(line, placement, start - origin, frame, rows)
                separator = ","
            done += len(rows)
            report_progress(done, row_count)
    yield "]}\n"


def _profile(
    line: Line, placement: Placement, start: Values, frame: Frames, rows: npt.NDArray[np.int32]
) -> Iterator[str]:
    end = (start + placement.duration_ns)[rows]
    yield (
        f'{{"type":"evented","name":{to_json(_line_name(line))},"unit":"nanoseconds",'
        f'"startValue":{int(start[rows[0]])},"endValue":{int(end.max())},"events":['
    )
    open_frames: list[tuple[int, int]] = []
    separator = ""
    for block in range(0, len(rows), _SPANS_PER_BLOCK):
        part = slice(block, block + _SPANS_PER_BLOCK)
        events: list[str] = []
        columns = (start[rows[part]].tolist(), end[part].tolist(), frame[rows[part]].tolist())
        for at, until, number in zip(*columns, strict=True):
            _close(open_frames, at, events)
            events.append(f'{{"type":"O","frame":{number},"at":{at}}}')
            open_frames.append((until, number))
        yield separator + ",".join(events)
        separator = ","
    events = []
    _close(open_frames, None, events)
    yield f",{','.join(events)}]}}"


def _close(open_frames: list[tuple[int, int]], time: int | None, events: list[str]) -> None:
    """Close frames that end by ``time`` (None: all frames), innermost first."""
    while open_frames and (time is None or open_frames[-1][0] <= time):
        until, number = open_frames.pop()
        events.append(f'{{"type":"C","frame":{number},"at":{until}}}')


def _line_name(line: Line) -> str:
    name = line.name or f"thread {line.number}"
    device = f"GPU {line.device} " if line.device >= 0 else ""
    return f"{device}{name}" + (f" (overlap {line.lane})" if line.lane else "")


FORMAT = Format(
    name="speedscope",
    suffixes=(".speedscope.json", ".speedscope.json.gz"),
    help="for speedscope.app, a flame chart per thread",
    write=write_speedscope,
)
