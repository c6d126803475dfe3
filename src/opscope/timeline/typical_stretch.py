"""The stretch of a long recording that represents all of it.

Views of all events at once would take minutes and gigabytes for a long recording. They use
consecutive steps instead, as many as are quick to analyse, with the recording's average time per
step: occasional delays are included in proportion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.metadata_kinds import SAMPLE, WARM
from opscope.columns.names import Names, step_number
from opscope.columns.part import Part, part_from
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Values
from opscope.timeline.detail import has_detail

MOST_EVENTS = 3_000_000
"""Recordings with more events are long: of them, only the typical stretch is read from disk."""

SAMPLE_EVENTS = 500_000
"""Maximum events of the stretch: a verdict on this many takes about a second and 0.3 GB."""

COLUMNS = ("name", "kind", "start_ns", "duration_ns")  # columns of events that steps are found from
_EVERY = 1024  # sampling interval, in events, of known times
_FEWEST_STEPS = 5
_NOT_YET_WARM = 3  # number of first steps to skip: they allocate, compile and choose algorithms


@dataclass(frozen=True)
class Stretch:
    """Part of a recording that represents all of it.

    Attributes:
        begin_ns: begin, Unix nanoseconds.
        end_ns: end, Unix nanoseconds.
        steps: number of steps in it; 0 if steps are unknown.
        of_steps: number of steps of the recording.
        of_ns: length of the recording.
    """

    begin_ns: int
    end_ns: int
    steps: int
    of_steps: int
    of_ns: int

    def facts(self) -> dict[str, Any]:
        """Metadata of the stretch, which also says that it has no start-up."""
        sample = {"steps": self.steps, "of_steps": self.of_steps, "of_ns": self.of_ns}
        return {WARM: True, SAMPLE: sample}


@dataclass(frozen=True)
class _Marks:
    """Events that may begin or end steps, in order of start. Shapes (marks,)."""

    name: npt.NDArray[np.int32]
    is_module: npt.NDArray[np.bool_]
    start_ns: Values
    end_ns: Values


def find_stretch(
    names: Names, pieces: Iterable[Mapping[str, npt.NDArray[Any]]], most: int = SAMPLE_EVENTS
) -> Stretch | None:
    """Find a stretch of at most ``most`` events; None if there are no more than that.

    Args:
        pieces: its events piece by piece, in order of start, with the columns :data:`COLUMNS`.
        most: maximum number of events.
    """
    scheduled = _flags(step_number(text) is not None for text in names)
    stepping = _flags("Optimizer.step#" in text for text in names)
    coarse, columns, events, end_ns = [], [], 0, 0
    for piece in pieces:
        name, kind = piece["name"], piece["kind"]
        coarse.append(piece["start_ns"][-events % _EVERY :: _EVERY].copy())
        events += len(name)
        end_ns = max(end_ns, int((piece["start_ns"] + piece["duration_ns"]).max(initial=0)))
        is_module = kind == EventKind.MODULE_CALL
        is_step = stepping[name] & (kind == EventKind.ANNOTATION)
        rows = np.flatnonzero(scheduled[name] | is_step | is_module)
        start = piece["start_ns"][rows]
        columns.append((name[rows], is_module[rows], start, start + piece["duration_ns"][rows]))
    if events <= most:
        return None
    marks = _Marks(*(np.concatenate(column) for column in zip(*columns, strict=True)))
    known_ns = np.concatenate(coarse).astype(np.int64)
    steps_ns = _boundaries(marks, scheduled, stepping)
    for moments_ns in (steps_ns, known_ns):
        before = np.searchsorted(known_ns, moments_ns) * _EVERY
        if (chosen := _typical(moments_ns, before, most)) is not None:
            first, last = chosen
            is_of_steps = moments_ns is steps_ns
            return Stretch(
                begin_ns=int(moments_ns[first]),
                end_ns=int(moments_ns[last]),
                steps=last - first if is_of_steps else 0,
                of_steps=len(steps_ns) - 1 if is_of_steps else 0,
                of_ns=end_ns - int(known_ns[0]),
            )
    return None


@derived
def typical_part(trace: TraceData) -> Part | None:
    """Representative stretch of a trace; None for short traces and traces with detailed steps."""
    if len(trace.events) <= SAMPLE_EVENTS or has_detail(trace):
        return None
    columns = [{name: trace.events[name] for name in COLUMNS}]
    stretch = find_stretch(trace.names, columns, SAMPLE_EVENTS)
    if stretch is None:
        return None
    part, whole = part_from(trace, stretch.begin_ns, stretch.end_ns), trace.metadata.get(SAMPLE)
    if whole is not None:  # the trace is a longer stretch of the recording
        of_steps = whole["of_steps"] if stretch.steps else 0
        stretch = replace(stretch, of_steps=of_steps, of_ns=whole["of_ns"])
    return Part(part.trace.with_metadata(stretch.facts()), part.rows)


def _flags(of_names: Iterable[bool]) -> npt.NDArray[np.bool_]:
    """Flags by name; the last is for events without one."""
    return np.array([*of_names, False], dtype=np.bool_)


def _boundaries(
    marks: _Marks, scheduled: npt.NDArray[np.bool_], stepping: npt.NDArray[np.bool_]
) -> Values:
    """Begins or ends of steps, in order; empty if there are too few."""
    of_schedule = np.flatnonzero(scheduled[marks.name])
    if len(of_schedule) > _FEWEST_STEPS:
        return marks.start_ns[of_schedule]
    of_optimizer = _outermost(marks, np.flatnonzero(stepping[marks.name]))
    if len(of_optimizer) > _FEWEST_STEPS:
        return np.sort(marks.end_ns[of_optimizer])
    calls = _outermost(marks, np.flatnonzero(marks.is_module))
    if len(calls):
        usual = np.argmax(np.bincount(marks.name[calls] + 1)) - 1
        calls = calls[marks.name[calls] == usual]
    return marks.start_ns[calls if len(calls) > _FEWEST_STEPS else calls[:0]]


def _outermost(marks: _Marks, rows: Values) -> Values:
    """Rows of marks that begin after all previous ones have ended."""
    if not len(rows):
        return rows
    latest = np.maximum.accumulate(marks.end_ns[rows])
    found: Values = rows[np.append(True, marks.start_ns[rows][1:] >= latest[:-1])]
    return found


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
