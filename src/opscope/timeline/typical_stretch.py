"""The stretch of a long recording that represents all of it.

Views of all events at once would take minutes and gigabytes for a long recording. They use
consecutive steps instead, as many as are quick to analyse, with the recording's average time per
step: occasional delays are included in proportion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.metadata_kinds import SAMPLE, WARM
from opscope.columns.names import STEP_PREFIX, Names
from opscope.columns.nesting import parents_by_nesting
from opscope.columns.part import Part, part_from
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData, derived
from opscope.columns.validate import checked_trace
from opscope.timeline.arrays import Values
from opscope.timeline.detail import has_detail, latest_bounds
from opscope.timeline.steps import OF_OPTIMIZER, OPTIMIZER_STEP, program_steps

Columns = Mapping[str, npt.NDArray[Any]]

MOST_EVENTS = 3_000_000
"""Recordings with more events are long: of them, only the typical stretch is read from disk."""

SAMPLE_EVENTS = 500_000
"""Maximum events of the stretch: a verdict on this many takes about a second and 0.3 GB."""

COLUMNS = ("name", "kind", "start_ns", "duration_ns")  # columns of events that steps are found from
_STEP = re.compile(f"^{STEP_PREFIX}|{OPTIMIZER_STEP}")
_EVERY = 1024  # sampling interval, in events, of known times
_NOT_YET_WARM = 3  # number of first steps to skip: they allocate, compile and choose algorithms


@dataclass(frozen=True)
class Outline:
    """The steps of a recording, and when its events ran.

    Attributes:
        marks: annotations of steps, module calls, and the operators that may be the last.
        known_ns: start of every 1024th event.
        events: number of all events.
        end_ns: last end.
    """

    marks: TraceData
    known_ns: Values
    events: int
    end_ns: int

    def stretch(self, most: int) -> tuple[int, int, dict[str, Any]] | None:
        """Begin and end of a stretch of at most ``most`` events, and the metadata it adds.

        None if there are no more events than that.
        """
        if self.events <= most:
            return None
        steps, delimited_by = program_steps(self.marks)
        # Optimizers' steps are bounded by their ends, all others by their begins.
        last_ns = steps.end_ns[-1:] if delimited_by == OF_OPTIMIZER else steps.end_ns[:0]
        steps_ns = np.append(steps.start_ns, last_ns)
        for moments_ns, is_of_steps in ((steps_ns, True), (self.known_ns, False)):
            before = np.searchsorted(self.known_ns, moments_ns) * _EVERY
            if (chosen := _typical(moments_ns, before, most)) is not None:
                first, last = chosen
                of_ns = self.end_ns - int(self.known_ns[0])
                counts = (last - first, len(steps_ns) - 1) if is_of_steps else (0, 0)
                sample = {"steps": counts[0], "of_steps": counts[1], "of_ns": of_ns}
                added = {WARM: True, SAMPLE: sample}  # WARM: it has no start-up
                return int(moments_ns[first]), int(moments_ns[last]), added
        return None


def outline_of(names: Names, pieces: Iterable[Columns]) -> Outline:
    """Outline of events with these names.

    ``pieces``: the events piece by piece, in order of start, with the columns :data:`COLUMNS`.
    """
    is_step = np.array([*(bool(_STEP.search(text)) for text in names), False])
    coarse, events, end_ns = [np.zeros(0, dtype=np.int64)], 0, 0
    kept = [dict.fromkeys(COLUMNS, coarse[0])]
    for piece in pieces:
        coarse.append(piece["start_ns"][-events % _EVERY :: _EVERY].copy())
        events += len(piece["name"])
        ends = piece["start_ns"] + piece["duration_ns"]
        end_ns = max(end_ns, int(ends.max(initial=0)))
        chosen = is_step[piece["name"]] | (piece["kind"] == EventKind.MODULE_CALL)
        if len(operators := np.flatnonzero(piece["kind"] == EventKind.OPERATOR)):
            chosen[operators[np.argmax(ends[operators])]] = True
        kept.append({name: piece[name][chosen] for name in COLUMNS})
    columns = {name: np.concatenate([one[name] for one in kept]) for name in COLUMNS}
    start = columns["start_ns"].astype(np.int64)
    one_line = np.zeros(len(start), dtype=np.int64)
    columns["parent"], _ = parents_by_nesting(one_line, start, start + columns["duration_ns"])
    marks = TraceData({"events": columns}, names, {})
    return Outline(marks, np.concatenate(coarse).astype(np.int64), events, end_ns)


def bounds_of_stretch(
    small: TraceData, read: Callable[[], Iterable[Columns]], source: str, most: int
) -> tuple[int, int, dict[str, Any]] | None:
    """Bounds of the stretch of a long recording that is shown for it, and the metadata it adds.

    The detailed stretch if there is one, else the typical one; None for a recording that is short.

    Args:
        small: names and metadata of the recording.
        read: reads the pieces of :func:`outline_of`.
        source: path of the recording, for errors.
        most: maximum number of events of the typical stretch.
    """

    def outline() -> Outline:
        found = outline_of(small.names, read())
        checked_trace(found.marks, source)
        return found

    return latest_bounds(small.metadata, lambda: outline().marks) or outline().stretch(most)


@derived
def typical_part(trace: TraceData) -> Part | None:
    """Representative stretch of a trace; None for short traces and traces with detailed steps."""
    if len(trace.events) <= SAMPLE_EVENTS or has_detail(trace):
        return None
    columns = {name: trace.events[name] for name in COLUMNS}
    stretch = outline_of(trace.names, [columns]).stretch(SAMPLE_EVENTS)
    if stretch is None:
        return None
    begin_ns, end_ns, added = stretch
    part, whole = part_from(trace, begin_ns, end_ns), trace.metadata.get(SAMPLE)
    if whole is not None:  # the trace is a longer stretch of the recording
        of_steps = whole["of_steps"] if added[SAMPLE]["steps"] else 0
        added[SAMPLE] |= {"of_steps": of_steps, "of_ns": whole["of_ns"]}
    return Part(part.trace.with_metadata(added), part.rows)


def _typical(moments_ns: Values, before: Values, most: int) -> tuple[int, int] | None:
    """Indexes of two moments with an average step between them; None if every step is too long.

    ``before``: number of events before each moment.
    """
    if len(moments_ns) <= _NOT_YET_WARM + 1:
        return None
    moments_ns, before = moments_ns[_NOT_YET_WARM:], before[_NOT_YET_WARM:]
    first = np.arange(len(moments_ns))
    last = np.searchsorted(before, before + most, side="right") - 1
    is_full = first <= int(np.argmax(last == len(first) - 1))  # later ones are shorter
    first = first[is_full & (last > first)]
    if not len(first):
        return None
    last = last[first]
    usual = (moments_ns[-1] - moments_ns[0]) / (len(moments_ns) - 1)
    each = (moments_ns[last] - moments_ns[first]) / (last - first)
    best = int(np.argmin(np.abs(each - usual)))
    return int(first[best]) + _NOT_YET_WARM, int(last[best]) + _NOT_YET_WARM
