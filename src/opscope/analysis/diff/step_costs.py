"""Cost of the steps of one recording by place: time, calls, bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from opscope.analysis.account.pieces import pieces_of
from opscope.analysis.account.processor import sampled_threads
from opscope.analysis.diff.places import CallPlace, Placed, PlaceKeys, place_calls, recorded_parts
from opscope.analysis.memory.counters import memory_was_recorded
from opscope.analysis.memory.lives import devices_with_memory, find_peak
from opscope.columns.schema import AllocationAction, EventKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Amounts, Flags, Values
from opscope.timeline.steady_state import StartUp, find_start_up
from opscope.timeline.steps import Steps, program_steps
from opscope.timeline.tree.event_tree import event_tree

BETWEEN = CallPlace("", "(between recorded events)")
"""Place for time of the steps' thread without a recorded event."""

_MOST_BLOCKS = 10
_STEPS_OF_BLOCK = 3
_ODD = 3.5  # a step this many standard deviations above the median counts as interrupted
_FAST = 0.02  # quantile of a place's time in the steps that is taken to be undisturbed
_USUAL = 0.9  # share of the steps in which a call must occur to count as part of every step
_COUNTED = (EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.MODULE_CALL)
"""Counted kinds: numbers of collections and library calls vary."""


@dataclass(frozen=True)
class PerStep:
    """Amount of something per step."""

    least: int  # minimum of a step
    most: int  # maximum of a step
    total: int  # sum over all steps
    steps: int  # number of steps

    @property
    def is_constant(self) -> bool:
        """Whether all steps have the same amount."""
        return self.least == self.most

    @property
    def mean(self) -> float:
        """Mean per step."""
        return self.total / self.steps if self.steps else 0.0


@dataclass(frozen=True, eq=False)
class StepCosts:
    """One recording as blocks of typical steps."""

    steps: int  # number of steps of the steady state
    typical: int  # number of them without interruption, which times are means over
    kind_of_steps: str  # what delimits them; empty if marked
    places: list[CallPlace]  # unique places of everything that ran in them
    # two times of each place that other programs do not lengthen, shape (places,): in fast steps,
    # for which the place must be shorter than the turns of a CPU; the mean without waits for a CPU
    fast_ns: Amounts
    undelayed_ns: Amounts
    time_ns: Amounts  # own time of each place in a typical step, shape (places, blocks)
    whole_ns: Amounts  # mean wall time of the typical steps, shape (blocks,)
    calls: dict[CallPlace, PerStep]  # calls by place
    bytes: dict[CallPlace, PerStep] | None  # allocated bytes by place; None: not recorded
    peak_bytes: dict[str, int]  # peak memory in the steady state, by device
    start_up_ns: int  # duration of the start-up; 0 if unknown

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return int(self.time_ns.shape[1])


def step_costs(trace: TraceData, parts: frozenset[PlaceKeys]) -> StepCosts:
    """Sum calls, bytes and times in the steps of the steady state by place."""
    start_up = find_start_up(trace)
    steps, kind = steady_steps(trace)
    placed = place_calls(trace, on_other_threads(trace, steps), parts)
    took = steps.end_ns - steps.start_ns
    block = _blocks(took)
    step = steps.row_at(event_tree(trace).start_ns)
    per_step = partial(_per_step, placed, len(steps), step)
    every = _in_every_step(trace, steps, placed)
    is_usual = (every > 0).mean(axis=1) >= _USUAL if len(steps) else np.zeros(len(every), np.bool_)
    undelayed_ns = _mean_without_waits(every, took, _waits_for_cpu(trace, steps))
    fast_ns = np.quantile(every, _FAST, axis=1) if len(steps) else undelayed_ns
    return StepCosts(
        steps=len(steps),
        typical=int((block >= 0).sum()),
        kind_of_steps=kind,
        places=[*placed.places, BETWEEN],
        fast_ns=np.where(is_usual, fast_ns, undelayed_ns),
        undelayed_ns=undelayed_ns,
        time_ns=_times(every, is_usual, block),
        whole_ns=_means(took, block),
        calls=per_step(*_calls(trace, step)),
        bytes=per_step(*_allocated(trace, step)) if memory_was_recorded(trace) else None,
        peak_bytes=_peaks(trace, start_up),
        start_up_ns=start_up.took_ns,
    )


def steady_steps(trace: TraceData) -> tuple[Steps, str]:
    """Steps that begin after the start-up, and what delimits them."""
    steps, kind = program_steps(trace)
    kept = steps.start_ns >= find_start_up(trace).end_ns
    columns = (steps.number, steps.event, steps.start_ns, steps.end_ns)
    return Steps(*(column[kept] for column in columns)), kind


def on_other_threads(trace: TraceData, steps: Steps) -> Flags:
    """Which events ran on other threads than most steps. Shape (events,)."""
    events, threads = trace.events, trace.table("threads")
    number = threads["system_thread_id"] if len(threads) else np.zeros(1, dtype=np.int64)
    thread = number[events["thread"]]
    if not len(steps):
        return np.zeros(len(thread), dtype=np.bool_)
    found, count = np.unique(thread[steps.event], return_counts=True)
    beside: Flags = thread != found[np.argmax(count)]
    return beside


def _mean_without_waits(every: Amounts, took: Values, waited: Amounts) -> Amounts:
    """Mean time of every place, less its share of the waits: which place waited is unknown."""
    if not len(took):
        return np.zeros(len(every))
    return np.asarray(every.mean(axis=1) * (1 - waited.sum() / took.sum()), dtype=np.float64)


def _waits_for_cpu(trace: TraceData, steps: Steps) -> Amounts:
    """How long the thread of each step waited for a CPU. Shape (steps,); 0 if unknown.

    Within an interval between two readings of the kernel's counters, in proportion to time.
    """
    threads, result = trace.table("threads"), np.zeros(len(steps))
    if not len(threads):
        return result
    thread = threads["system_thread_id"][trace.events["thread"][steps.event]]
    for number in np.unique(thread).tolist():
        if (found := sampled_threads(trace).get(number)) is not None:
            first = int(found.start_ns[0])
            edges = np.append(found.start_ns, found.end_ns) - first
            waited = np.append(0, np.cumsum(found.delayed_ns))
            begin, end = (
                np.interp(moments - first, edges, waited)
                for moments in (steps.start_ns, steps.end_ns)
            )
            result += np.where(thread == number, end - begin, 0)
    return result


def _blocks(took: Values) -> Values:
    """Block of each step, consecutive blocks of equal size; -1 for interrupted steps."""
    if not len(took):
        return np.zeros(0, dtype=np.int64)
    middle = np.median(took)
    spread = 1.4826 * np.median(np.abs(took - middle))
    typical = np.flatnonzero(took <= middle + _ODD * max(spread, 0.01 * middle))
    blocks = int(np.clip(len(typical) // _STEPS_OF_BLOCK, 1, _MOST_BLOCKS))
    block = np.full(len(took), -1, dtype=np.int64)
    block[typical] = np.arange(len(typical)) * blocks // len(typical)
    return block


def _means(took: Values, block: Values) -> Amounts:
    inside = block >= 0
    return np.asarray(np.bincount(block[inside], took[inside]) / np.bincount(block[inside]))


def _times(every: Amounts, is_usual: Flags, block: Values) -> Amounts:
    """Own time of every place, then time between, in a step of each block.

    It is the median over the block's steps, because another program's use of the CPU lengthens
    whatever runs then. For places that are not in nearly every step it is the mean.
    """
    blocks = int(block.max(initial=-1)) + 1
    result = np.zeros((len(every), blocks))
    for number in range(blocks):
        of_block = every[:, block == number]
        result[is_usual, number] = np.median(of_block[is_usual], axis=1)
        result[~is_usual, number] = of_block[~is_usual].mean(axis=1)
    return result


def _in_every_step(trace: TraceData, steps: Steps, placed: Placed) -> Amounts:
    """Own time of every place, then time between, in each step. Shape (places + 1, steps)."""
    shape = len(placed.places), len(steps)
    event, step, time_ns = _in_steps(trace, steps)
    key = placed.row[event] * shape[1] + step
    own = np.bincount(key, time_ns, shape[0] * shape[1]).reshape(shape)
    on_thread = np.array([not place.beside for place in placed.places], dtype=np.bool_)
    took = steps.end_ns - steps.start_ns
    return np.asarray(np.vstack([own, took - own[on_thread].sum(axis=0)]), dtype=np.float64)


def _in_steps(trace: TraceData, steps: Steps) -> tuple[Values, Values, Values]:
    """Innermost event of every piece of time in a step, the step, and the piece's length."""
    end_ns = int(steps.end_ns.max(initial=0))
    pieces = pieces_of(trace, steps, (int(steps.start_ns.min(initial=end_ns)), end_ns))
    step = steps.row_at(pieces.start_ns)
    inside = (pieces.event >= 0) & (step >= 0)
    return pieces.event[inside], step[inside], pieces.length_ns[inside]


def _calls(trace: TraceData, step: Values) -> tuple[Values, Values]:
    """Events that count as calls in steps, and 1 for each."""
    events = np.flatnonzero(np.isin(trace.events["kind"], _COUNTED) & (step >= 0))
    return events, np.ones(len(events), dtype=np.int64)


def _allocated(trace: TraceData, step: Values) -> tuple[Values, Values]:
    """Event and size of each allocation in a step."""
    table = trace.table("allocations")
    allocates = (table["action"] == AllocationAction.ALLOCATE) & (table["event"] >= 0)
    rows = np.flatnonzero(allocates & (np.append(step, -1)[table["event"]] >= 0))
    return table["event"][rows].astype(np.int64), table["size_bytes"][rows]


def _per_step(
    placed: Placed, steps: int, step: Values, events: Values, value: Values
) -> dict[CallPlace, PerStep]:
    """Minimum, maximum and sum per step of the values of events, by place."""
    if not len(events):
        return {}
    keys = placed.row[events] * steps + step[events]
    key, group = np.unique(keys, return_inverse=True)
    total = np.bincount(group.reshape(-1), value, len(key)).astype(np.int64)
    place, first, count = np.unique(key // steps, return_index=True, return_counts=True)
    least, most, sums = (each.reduceat(total, first) for each in (np.minimum, np.maximum, np.add))
    least = np.where(count == steps, least, 0)
    columns = (place.tolist(), least.tolist(), most.tolist(), sums.tolist())
    return {
        placed.places[row]: PerStep(low, high, all_of_it, steps)
        for row, low, high, all_of_it in zip(*columns, strict=True)
    }


def _peaks(trace: TraceData, start_up: StartUp) -> dict[str, int]:
    if not memory_was_recorded(trace):
        return {}
    found = {}
    for device in devices_with_memory(trace):
        peak = find_peak(trace, device)
        steady = peak.row_time_ns >= start_up.end_ns
        if steady.any():
            found[device] = int(peak.in_use_at[steady].max())
    return found


@dataclass(frozen=True, eq=False)
class Side:
    """Recordings of one version."""

    names: tuple[str, ...]  # name of each recording
    traces: tuple[TraceData, ...]  # trace of each recording

    @property
    def parts(self) -> frozenset[PlaceKeys]:
        """Properties of places that all recordings have."""
        return frozenset.intersection(*(recorded_parts(trace) for trace in self.traces))

    def costs(self, parts: frozenset[PlaceKeys]) -> list[StepCosts]:
        """Costs of each recording, with places identified by ``parts``."""
        return [step_costs(trace, parts) for trace in self.traces]
