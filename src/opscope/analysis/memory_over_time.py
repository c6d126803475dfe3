"""Memory in use over time by category, and what was alive when it was at its peak."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.memory_counters import MemoryCounter, memory_counters
from opscope.analysis.phases import PHASE_NAMES, find_phases
from opscope.trace.trace import Trace

Values = npt.NDArray[np.int64]

BEFORE = "allocated before the recording"
OUTSIDE = "outside operators"
CPU = "CPU"


@dataclass(frozen=True)
class MemoryOverTime:
    """One device. Times are Unix nanoseconds.

    Attributes:
        device: as shown, such as ``CPU``.
        time_ns: of the samples, shape (samples,); the highest and lowest moments of every stretch
            of the recording are among them.
        total_bytes: in use at each, shape (samples,).
        categories: what the bytes are grouped by.
        category_bytes: shape (samples, categories); rows add up to ``total_bytes``.
        peak_bytes: most in use at once.
        peak_ns: when.
        alive: rows of ``allocations`` that were in use then, largest first.
        alive_until_ns: when each was freed; -1 not during the recording.
    """

    device: str
    time_ns: Values
    total_bytes: Values
    categories: list[str]
    category_bytes: Values
    peak_bytes: int
    peak_ns: int
    alive: Values
    alive_until_ns: Values


def memory_over_time(trace: Trace, stretches: int = 1000) -> list[MemoryOverTime]:
    """One entry per device that allocated anything.

    Categories are the parts of a step that allocated: bytes of forward operators are mostly
    activations, those of backward ones gradients.

    Args:
        trace: recorded with memory.
        stretches: into how many equal times the recording is divided to choose samples.
    """
    return [_of_device(trace, counter, stretches) for counter in memory_counters(trace)]


def _of_device(trace: Trace, counter: MemoryCounter, stretches: int) -> MemoryOverTime:
    table, rows = trace.table("allocations"), counter.rows
    size = table["size_bytes"][rows]
    partner = match_frees(table["address"][rows], size)
    in_use = _in_use(counter, size, partner)
    samples = extreme_positions(counter.time_ns, in_use, stretches)
    category = _categories(trace, rows)
    freed = np.flatnonzero((size < 0) & (partner >= 0))
    category[freed] = category[partner[freed]]
    known = (size >= 0) | (partner >= 0)
    names, by_category = _by_category(category, np.where(known, size, 0), samples)
    total = in_use[samples]
    before = total - by_category.sum(axis=1)
    peak = int(np.argmax(in_use))
    allocated = np.flatnonzero(size[: peak + 1] > 0)
    alive = allocated[(partner[allocated] < 0) | (partner[allocated] > peak)]
    alive = alive[np.argsort(-size[alive], kind="stable")]
    until = np.where(partner[alive] >= 0, counter.time_ns[partner[alive]], -1)
    if before.any():
        names, by_category = [BEFORE, *names], np.column_stack([before, by_category])
    return MemoryOverTime(
        device=counter.device,
        time_ns=counter.time_ns[samples],
        total_bytes=total,
        categories=names,
        category_bytes=by_category,
        peak_bytes=int(in_use[peak]),
        peak_ns=int(counter.time_ns[peak]),
        alive=rows[alive],
        alive_until_ns=until,
    )


def _in_use(counter: MemoryCounter, size: Values, partner: Values) -> Values:
    """Bytes after every row: the allocator's total, but for the CPU's.

    That one counts only while somebody listens: what it handed out then and took back since stays
    in it for good. Of what was there before, only what is freed in the recording is known.
    """
    if counter.device != CPU:
        return counter.allocated_bytes
    before = -int(size[(size < 0) & (partner < 0)].sum())
    in_use: Values = before + np.cumsum(size)
    return in_use


def match_frees(address: npt.NDArray[np.uint64], size: Values) -> Values:
    """For every allocation the position of its free and the other way round; -1 for none.

    Rows are in order of time: a free belongs to the allocation of its address just before it.
    """
    partner = np.full(len(size), -1, dtype=np.int64)
    order = np.argsort(address, kind="stable")
    first, second = order[:-1], order[1:]
    pair = (address[first] == address[second]) & (size[first] > 0) & (size[second] < 0)
    partner[first[pair]], partner[second[pair]] = second[pair], first[pair]
    return partner


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


def _categories(trace: Trace, rows: Values) -> Values:
    """Number of the category of each row of ``allocations``: its event's phase, from 1; else 0."""
    event = trace.table("allocations")["event"][rows]
    phase = find_phases(trace).phase
    if not len(phase):
        return np.zeros(len(rows), dtype=np.int64)
    return np.where(event >= 0, phase[event] + 1, 0).astype(np.int64)


def _by_category(category: Values, size: Values, samples: Values) -> tuple[list[str], Values]:
    """Names of the categories that hold anything, and their bytes at every sample."""
    names, columns = [], []
    for number, name in enumerate((OUTSIDE, *PHASE_NAMES)):
        chosen = category == number
        if chosen.any():
            names.append(name)
            columns.append(np.cumsum(np.where(chosen, size, 0))[samples])
    if not names:
        return [], np.zeros((len(samples), 0), dtype=np.int64)
    return names, np.column_stack(columns)
