"""The spans of the timeline as columns, sorted by line, with their labels."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import opscope._native as _native
from opscope.analysis.torch_listing.rows import plain_shapes
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.report.packing import Packer, differences, shown
from opscope.timeline.arrays import Rows, Values
from opscope.timeline.signatures import first_of_each, shape_signatures
from opscope.timeline.timeline import Placement, place_events, place_gpu
from opscope.timeline.tree.arguments import Arguments
from opscope.timeline.tree.frame_text import own_texts
from opscope.timeline.tree.line_nesting import line_nesting
from opscope.timeline.tree.links import arrows
from opscope.timeline.waits import TimeKind, time_kind

_MOST_SHAPES = 20_000
"""Maximum number of distinct argument shapes on the page, the most frequent ones."""

GPU_KIND = EventKind.TASK_RUN + 1
"""Labels of device activity have this kind plus that of the row of ``gpu``. Lower kinds are those
of events, see ``web/src/contract.ts``."""

_UNKNOWN = GPU_KIND + 7
"""Kind of events that the page does not know, while labels are numbered; -1 on the page."""


@dataclass(frozen=True)
class Spans:
    """Facts about the spans that other sections need."""

    start_ns: int  # time 0 of the page, Unix nanoseconds
    position: Values  # index among the spans of every event, -1 for none; shape (events,)

    @staticmethod
    def without(trace: TraceData, start_ns: int) -> Spans:
        """Spans of a trace whose events are not on the timeline."""
        return Spans(start_ns, np.full(len(trace.events), -1, dtype=np.int64))


def add_spans(trace: TraceData, start_ns: int, packer: Packer) -> tuple[dict[str, Any], Spans]:
    """Add the columns to ``packer``; returns the section that describes them."""
    events, gpu = trace.events, trace.table("gpu")
    placed, placed_gpu = place_events(trace), place_gpu(trace)
    order, begin = placed.by_line()
    gpu_order, gpu_begin = placed_gpu.by_line()
    label, labels = _labels(trace)
    starts = np.concatenate([events["start_ns"][order], gpu["start_ns"][gpu_order]]) - start_ns
    lines = np.concatenate([begin, gpu_begin[1:] + begin[-1]])
    line_starts = lines[:-1][np.diff(lines) > 0]
    packer.add("start", np.maximum(differences(np.maximum(starts, 0), line_starts), 0))
    durations = (placed.duration_ns[order], placed_gpu.duration_ns[gpu_order])
    packer.add("duration", np.concatenate(durations))
    packer.add(
        "label", np.concatenate([label[: len(events)][order], label[len(events) :][gpu_order]])
    )
    position = _inverse(order)
    _add_arrows(trace, position, _inverse(gpu_order) + len(order), packer)
    section = {
        "lines": [
            {**asdict(line), "name": shown(line.name)}
            for line in (*placed.lines, *placed_gpu.lines)
        ],
        "lineStarts": lines.tolist(),
        "labels": labels,
        "unfinished": np.sort(position[np.flatnonzero(events["unfinished"])]).tolist(),
        "inputs": _add_inputs(trace, order, packer),
        "moved": _moved(trace, placed, position, start_ns),
    }
    return section, Spans(start_ns, position)


def add_merged(packer: Packer, merged: Rows, position: Values) -> None:
    """Pack the number of spans that each span represents (0: only itself), in the page's order."""
    column = np.zeros(len(merged), dtype=np.int64)
    if merged.any():
        column[position] = merged
    packer.add("merged", column)


def _moved(trace: TraceData, placed: Placement, position: Values, start_ns: int) -> dict[str, Any]:
    """Spans whose time or parent differs from their place on the line, as spans may overlap."""
    nested = line_nesting(trace)
    parents = nested.around.astype(np.int64)
    if nested.is_as_recorded:
        return {"span": [], "until": [], "around": []}
    on_lines, *_ = _native.nest_on_lines(
        nested.start_ns, nested.took_ns, np.full(len(parents), -1, dtype=np.int32),
        np.ascontiguousarray(placed.line), len(placed.lines),
    )  # fmt: skip
    until = np.where(nested.is_async, nested.start_ns, nested.until_ns)
    parents[nested.is_async] = -1
    is_moved = (until != nested.start_ns + nested.took_ns) | (parents != on_lines)
    rows = np.flatnonzero(is_moved)
    return {
        "span": position[rows].tolist(),
        "until": np.maximum(until[rows] - start_ns, 0).tolist(),
        "around": np.append(position, -1)[parents[rows]].tolist(),
    }


def page_kinds(kinds: npt.NDArray[Any], other: int) -> Values:
    """Kinds of events as the page numbers them; ``other`` replaces kinds of devices."""
    return np.where(kinds < GPU_KIND, kinds.astype(np.int64), other)


def _labels(trace: TraceData) -> tuple[Values, dict[str, list[Any]]]:
    """Index in labels of every event and every row of ``gpu``, and the labels: text and kind."""
    gpu = trace.table("gpu")
    kinds = GPU_KIND + 8
    used_names, gpu_label = np.unique(gpu["name"], return_inverse=True)
    own_label, own = own_texts(trace)
    texts = [*own, *(trace.names[name] for name in used_names)]
    text = np.concatenate([own_label, gpu_label.reshape(-1) + len(own)])
    event_kinds = page_kinds(trace.events["kind"], _UNKNOWN)
    kind = np.concatenate([event_kinds, np.minimum(gpu["kind"], 6) + GPU_KIND])
    key = text * kinds + kind
    used = np.flatnonzero(np.bincount(key, minlength=1))
    number = np.zeros(int(used[-1]) + 1 if used.size else 1, dtype=np.int64)
    number[used] = np.arange(len(used))
    pairs = [divmod(k, kinds) for k in used.tolist()]
    times = [time_kind(texts[text]) for text, _ in pairs]
    return number[key], {
        "text": [shown(texts[t]) for t, _ in pairs],
        "kind": [k if k != _UNKNOWN else -1 for _, k in pairs],
        "waiting": [i for i, time in enumerate(times) if time is TimeKind.WAITING],
        "unranked": [
            i for i, time in enumerate(times) if time in (TimeKind.STEP, TimeKind.RECORDING)
        ],
    }


def _add_arrows(trace: TraceData, position: Values, gpu_position: Values, packer: Packer) -> None:
    links = arrows(trace)
    launch = trace.table("gpu")["launch"]
    launched = np.flatnonzero(launch >= 0)
    source = np.concatenate([position[links.source], position[launch[launched]]])
    target = np.concatenate([position[links.target], gpu_position[launched]])
    order = np.argsort(source, kind="stable")
    packer.add("arrowSource", source[order])
    packer.add("arrowTarget", target[order])


def _add_inputs(trace: TraceData, order: Rows, packer: Packer) -> list[str]:
    """Texts of argument shapes; the packed column is the index of a span's text plus 1, or 0."""
    signature = shape_signatures(trace)
    rows = np.flatnonzero(signature)
    if not rows.size:
        packer.add("inputs", np.zeros(0, dtype=np.int64))
        return []
    group, first = first_of_each(signature[rows])
    frequent = np.argsort(-np.bincount(group), kind="stable")[:_MOST_SHAPES]
    number = np.zeros(len(first), dtype=np.int64)
    number[frequent] = np.arange(1, len(frequent) + 1)
    column = np.zeros(len(signature), dtype=np.int64)
    column[rows] = number[group]
    packer.add("inputs", column[order])
    arguments = Arguments(trace)
    return [shapes_text(plain_shapes(arguments.inputs(int(rows[first[g]])))) for g in frequent]


def shapes_text(shapes: list[Any]) -> str:
    """``[64, 1, 8, 8], [16]``: one list per argument."""
    return shown(", ".join(str(shape) for shape in shapes))


def _inverse(order: Rows) -> Values:
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    return position
