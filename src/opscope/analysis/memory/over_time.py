"""Memory in use over time, by category and by the part of a step that allocated it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from opscope.analysis.memory.counters import memory_was_recorded
from opscope.analysis.memory.life_categories import (
    ALLOCATED_BEFORE,
    SHOWN_CODES,
    LifeCategories,
    categories_of_lives,
    category_text,
)
from opscope.analysis.memory.lives import PeakMoment, devices_with_memory, find_peak
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Values
from opscope.timeline.phases import PHASE_NAMES, find_phases


@dataclass(frozen=True)
class MemoryParts:
    """Bytes in use by part."""

    names: list[str]  # names of parts that are ever used
    size_bytes: Values  # shape (samples, parts); rows sum to the bytes in use


@dataclass(frozen=True)
class _Changes:
    """Bytes added to a part from a row of ``PeakMoment.in_use_at`` on; shape (changes,) each."""

    row: Values
    code: Values
    size_bytes: Values


def parts_over_time(
    peak: PeakMoment,
    samples: Values,
    names: Mapping[int, str],
    code: Values,
    changing: LifeCategories | None = None,
) -> MemoryParts:
    """Sum the blocks of a device by their parts.

    Other bytes in use were allocated before the recording, which ``names`` therefore includes.

    Args:
        samples: rows of ``peak.in_use_at``.
        names: names of the parts by code, in display order.
        code: code of every block from its allocation on, shape (blocks,).
        changing: changes of blocks' codes.
    """
    changes = _changes(peak, code, changing)
    columns = {name: _total(changes, number, peak, samples) for number, name in names.items()}
    unseen = peak.in_use_at[samples] - np.sum(list(columns.values()), axis=0)
    columns[ALLOCATED_BEFORE] += unseen
    held = {name: column for name, column in columns.items() if column.any()}
    nothing = np.zeros((len(samples), 0), dtype=np.int64)
    return MemoryParts(list(held), np.column_stack(list(held.values())) if held else nothing)


def _total(changes: _Changes, code: int, peak: PeakMoment, samples: Values) -> Values:
    chosen = changes.code == code
    size = len(peak.in_use_at) + 1
    # Sums of bytes are integers far below 2**53, which floats hold exactly.
    added = np.bincount(changes.row[chosen], changes.size_bytes[chosen], minlength=size)
    total: Values = np.cumsum(added)[samples].astype(np.int64)
    return total


def _changes(peak: PeakMoment, code: Values, changing: LifeCategories | None) -> _Changes:
    size, most = peak.lives.size_bytes, len(peak.in_use_at)
    begin, end = np.minimum(peak.begin + 1, most), np.minimum(peak.end + 1, most)
    last = code
    parts = [(begin, code, size)]
    if changing is not None and len(changing.block):
        block = changing.block
        before = _codes_before(code, changing)
        # A change of category takes effect at the next row, while its block is in use.
        row = np.searchsorted(peak.row_time_ns[1:], changing.time_ns, side="left") + 1
        row = np.clip(row, begin[block], np.maximum(begin, end)[block])
        parts += [(row, before, -size[block]), (row, changing.code, size[block])]
        last = code.copy()
        last[block] = changing.code
    parts.append((end, last, -size))
    return _Changes(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _codes_before(code: Values, changing: LifeCategories) -> Values:
    """Code of each changed block before the change; changes of a block are in order of time."""
    block = changing.block
    follows = np.append(False, block[1:] == block[:-1])
    earlier = np.append(0, changing.code[:-1])
    return np.where(follows, earlier, code[block])


OUTSIDE = "outside operators"
STRETCHES = 1500
_PHASES = dict(enumerate((ALLOCATED_BEFORE, OUTSIDE, *PHASE_NAMES)))
_CATEGORIES = {code: category_text(code) for code in SHOWN_CODES}


@dataclass(frozen=True)
class MemoryOverTime:
    """Memory of one device over time. Times are Unix nanoseconds."""

    device: str  # torch's name
    time_ns: Values  # samples: the start, and every stretch's extremes. Shape (samples,)
    total_bytes: Values  # bytes in use at each, shape (samples,)
    peak: PeakMoment
    by_phase: MemoryParts  # by allocating phase: forward (activations), backward (gradients)
    by_category: MemoryParts | None  # parameters, gradients, ...; None if unknown
    uncategorised_because: str  # why it is unknown; empty if not requested

    @property
    def at_peak(self) -> int:
        """Sample of the peak."""
        return int(np.argmax(self.total_bytes))


def memory_over_time(
    trace: TraceData, stretches: int = STRETCHES, *, categories: bool = True
) -> list[MemoryOverTime]:
    """One entry per device with memory; empty if memory was not recorded.

    Samples are the extremes of ``stretches`` equal parts of the time. ``categories`` takes longer,
    and may import torch.
    """
    if not memory_was_recorded(trace):
        return []
    peaks = (find_peak(trace, device) for device in devices_with_memory(trace))
    return [
        _of_device(trace, peak, stretches, categories) for peak in peaks if len(peak.in_use_at) > 1
    ]


def _of_device(
    trace: TraceData, peak: PeakMoment, stretches: int, categories: bool
) -> MemoryOverTime:
    samples = extreme_positions(peak.row_time_ns, peak.in_use_at, stretches)
    phases = parts_over_time(peak, samples, _PHASES, _phase_codes(trace, peak))
    by_category, because = None, ""
    if categories:
        found = categories_of_lives(trace, peak.lives)
        because = found.unknown_because
    if categories and not because:
        by_category = parts_over_time(peak, samples, _CATEGORIES, found.first, found)
    return MemoryOverTime(
        device=peak.device,
        time_ns=peak.row_time_ns[samples],
        total_bytes=peak.in_use_at[samples],
        peak=peak,
        by_phase=phases,
        by_category=by_category,
        uncategorised_because=because,
    )


def _phase_codes(trace: TraceData, peak: PeakMoment) -> Values:
    """Codes in ``_PHASES``, by the event that allocated each block. Shape (blocks,)."""
    allocation = peak.lives.allocation
    event = np.append(trace.table("allocations")["event"], -1)[allocation]
    phase = np.append(find_phases(trace).phase, -1)[event].astype(np.int64)
    return np.where(allocation < 0, 0, phase + 2)


def extreme_positions(time_ns: Values, value: Values, stretches: int) -> Values:
    """Positions of the first, last, lowest and highest value of every stretch of time."""
    if len(value) <= 4 * stretches:
        return np.arange(len(value))
    edges = np.linspace(time_ns[0], time_ns[-1], stretches + 1)[1:-1]
    bounds = np.unique(np.concatenate([[0], np.searchsorted(time_ns, edges)]))
    ends = np.append(bounds[1:], len(value))
    chosen = {0, len(value) - 1}
    for begin, end in zip(bounds.tolist(), ends.tolist(), strict=True):
        if begin < end:
            part = value[begin:end]
            chosen |= {begin, begin + int(part.argmin()), begin + int(part.argmax()), end - 1}
    return np.array(sorted(chosen), dtype=np.int64)
