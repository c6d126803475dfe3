"""Durations of training steps, and their time by operator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.base.html_table import ShownTable
from opscope.base.quantity_text import time_text
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.listing import WORK_KINDS, TorchListing
from opscope.timeline.phases import PHASE_NAMES, Phase, find_phases
from opscope.timeline.signatures import group_sums, rows_of
from opscope.timeline.steps import Steps, find_steps, step_of_events
from opscope.timeline.stretches import union_of
from opscope.timeline.tree.event_tree import event_tree

_MOST_SHOWN = 20  # maximum number of printed steps
_MOST_LABELS = 20  # maximum number of operators with times per step


@dataclass(frozen=True)
class StepTimes:
    """One row per step, in order of start."""

    steps: Steps  # numbers and bounds
    duration_ns: Values  # shape (steps,)
    phase_ns: Values  # time with any thread in each phase, shape (steps, phases)
    busy_ns: Values  # time with any thread in any phase; the rest is Python, or waiting
    device_ns: Values  # time with a device computing or copying
    events: Values  # number of events that started in each step
    labels: list[str]  # operators with the largest self time over all steps
    label_ns: Values  # self time of each of ``labels`` in each step, shape (steps, labels)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        return str(self._shown())

    def _repr_html_(self) -> str:
        return self._shown()._repr_html_()

    def _shown(self) -> ShownTable:
        """The first steps, with every phase that took any time."""
        phases = [phase for phase in Phase if self.phase_ns[:, phase].any()]
        columns = ["step", "duration", *(PHASE_NAMES[phase] for phase in phases), "rest"]
        rest = np.maximum(self.duration_ns - self.busy_ns, 0)
        rows = [
            [
                str(self.steps.number[step]),
                time_text(int(self.duration_ns[step])),
                *(time_text(int(self.phase_ns[step, phase])) for phase in phases),
                time_text(int(rest[step])),
            ]
            for step in range(min(len(self), _MOST_SHOWN))
        ]
        more = len(self) - len(rows)
        return ShownTable(
            f"{len(self):,} steps", columns, rows, f"and {more:,} more" if more else ""
        )


def step_times(
    trace: TraceData,
    listing: TorchListing | None = None,
    steps: Steps | None = None,
) -> StepTimes:
    """Time per step and phase; by default for steps that ``ProfilerStep#N`` spans mark."""
    tree = event_tree(trace)
    if steps is None:
        steps = find_steps(trace)
        row = rows_of(steps.number, step_of_events(trace))
    else:
        row = steps.row_at(tree.start_ns)
    phases = find_phases(trace)
    entered = np.flatnonzero(phases.outermost)
    phase, around = phases.phase[entered], phases.around[entered]
    start = tree.start_ns[entered]
    end = start + tree.duration_ns[entered]

    def time_in(chosen: Flags) -> Values:
        return union_of(start[chosen], end[chosen]).covered(steps.start_ns, steps.end_ns)

    # A garbage collection is subtracted from the phase that it interrupts.
    pause = phase == Phase.GARBAGE_COLLECTION
    by_phase = [time_in(phase == one) - time_in(pause & (around == one)) for one in Phase]
    labels, label_ns = _labels_by_step(listing or TorchListing(trace), row, len(steps))
    return StepTimes(
        steps=steps,
        duration_ns=steps.end_ns - steps.start_ns,
        phase_ns=np.maximum(np.stack(by_phase, axis=1), 0),
        busy_ns=time_in(phase >= 0),
        device_ns=_device_busy(trace, steps),
        events=np.bincount(row[row >= 0], minlength=len(steps)),
        labels=labels,
        label_ns=label_ns,
    )


def _device_busy(trace: TraceData, steps: Steps) -> Values:
    """Device time by the step in which work ran, not by the launching one. Shape (steps,)."""
    gpu = trace.table("gpu")
    work = np.isin(gpu["kind"], WORK_KINDS)
    start = gpu["start_ns"][work]
    busy = union_of(start, start + gpu["duration_ns"][work])
    return busy.covered(steps.start_ns, steps.end_ns)


def _labels_by_step(listing: TorchListing, row: Values, steps: int) -> tuple[list[str], Values]:
    inside = np.flatnonzero(listing.listed & (row >= 0))
    label, own_ns = listing.group_label[inside], listing.self_ns[inside]
    total = np.bincount(label, weights=own_ns, minlength=len(listing.group_texts))
    step_labels = [i for i, text in enumerate(listing.group_texts) if text == "ProfilerStep*"]
    total[step_labels] = 0
    top = np.argsort(-total, kind="stable")[:_MOST_LABELS]
    top = top[total[top] > 0]
    place = np.full(len(total), -1, dtype=np.int64)
    place[top] = np.arange(len(top))
    known = place[label] >= 0
    key = row[inside][known] * len(top) + place[label[known]]
    sums = group_sums(own_ns[known], key, steps * len(top))
    return [listing.group_texts[i] for i in top], sums.reshape(steps, len(top))
