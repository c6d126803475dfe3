"""Memory in use at the peak of a device, by owner."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from opscope.analysis.memory.counters import check_memory_recorded, where_recorded
from opscope.analysis.memory.life_categories import (
    ALLOCATED_BEFORE,
    NOT_RECORDED,
    PeakGroup,
    categories_of_lives,
    category_text,
    group_blocks,
)
from opscope.analysis.memory.lives import PeakMoment, alive_at, devices_with_memory, find_peak
from opscope.analysis.memory.owners import (
    OUTSIDE_MODULES,
    lines_of_events,
    modules_of_events,
    modules_of_tensors,
    operators_of_events,
    stacks_of_events,
)
from opscope.base.html_table import html_table
from opscope.base.quantity_text import bytes_text
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.timeline.arrays import Values

NO_STACK = "no Python stack"
NO_LINE = "no line of the program"
_MOST_SHOWN = 8


@dataclass(frozen=True)
class AliveBlocks:
    """Blocks in use, largest first. Arrays and lists have one entry per block.

    Attributes:
        allocated_ns: Unix time; -1 before the recording.
        freed_ns: Unix time; -1 not during the recording.
        allocation: row in allocations; -1 if not recorded.
        module: path of the module it was allocated for.
        operator: outermost operator that allocated it.
        stack: Python frames, outermost first.
        line: innermost line of the program that allocated it.
    """

    size_bytes: Values
    allocated_ns: Values
    freed_ns: Values
    allocation: Values
    category: list[str]
    module: list[str]
    operator: list[str]
    stack: list[tuple[str, ...]]
    line: list[str]

    def __len__(self) -> int:
        return len(self.size_bytes)

    def __repr__(self) -> str:
        return f"<AliveBlocks: {len(self):,} blocks, {bytes_text(int(self.size_bytes.sum()))}>"


@dataclass(frozen=True)
class PeakMemory:
    """Peak memory of one device.

    Attributes:
        device: torch's name.
        time_ns: Unix time; the recording's start if memory never grew beyond it.
        total_bytes: bytes in use at the peak.
        before_bytes: part of ``total_bytes`` allocated before the recording.
        unseen_bytes: part of ``before_bytes`` never used or freed in the recording: only the
            allocator's total includes it.
        uncertain_bytes: part of ``before_bytes`` without recorded use at the peak or later, on a
            device whose allocator's total does not include it: it may have been freed.
        blocks: known blocks.
        by_category: parameters, gradients, activations, ...
        by_module: path of the module whose forward allocated it, or made the backward node that
            did, or that holds it.
        by_operator: outermost operator that allocated it.
        by_stack: Python functions that did; one group if no Python calls were recorded.
        by_line: innermost line of the program that did, with its text if known.
    """

    device: str
    time_ns: int
    total_bytes: int
    before_bytes: int
    unseen_bytes: int
    uncertain_bytes: int
    blocks: AliveBlocks
    by_category: tuple[PeakGroup, ...]
    by_module: tuple[PeakGroup, ...]
    by_operator: tuple[PeakGroup, ...]
    by_stack: tuple[PeakGroup, ...]
    by_line: tuple[PeakGroup, ...]

    def __repr__(self) -> str:
        largest = (f"{group.name} {bytes_text(group.size_bytes)}" for group in self.by_category[:3])
        held = f": {', '.join(largest)}" if self.by_category else ""
        return f"<PeakMemory of {self.device}: {bytes_text(self.total_bytes)}{held}>"

    def _repr_html_(self) -> str:
        rows = [
            [by, one.name, bytes_text(one.size_bytes), f"{one.blocks:,}"]
            for by, groups in (
                ("category", self.by_category),
                ("module", self.by_module),
                ("line", self.by_line),
            )
            for one in groups[:_MOST_SHOWN]
        ]
        title = f"opscope: {bytes_text(self.total_bytes)} in use on {self.device} at its peak"
        return html_table(title, ("by", "name", "size", "blocks"), rows, texts=(0, 1))

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON, without single blocks."""
        groups = ("by_category", "by_module", "by_operator", "by_stack", "by_line")
        plain = {k: v for k, v in vars(self).items() if k not in (*groups, "blocks")}
        return plain | {name: [asdict(group) for group in getattr(self, name)] for name in groups}


def memory_at_peak(trace: TraceData, device: str | None = None) -> PeakMemory:
    """Peak memory of a device, broken down by owner; see :meth:`opscope.Trace.peak_memory`.

    ``device`` None is the fullest accelerator or, without one, the CPU.
    """
    trace = where_recorded(trace)
    check_memory_recorded(trace)
    if device is None:
        peaks = [find_peak(trace, name) for name in devices_with_memory(trace)]
        accelerators = [peak for peak in peaks if peak.device != "cpu"] or peaks
        if not accelerators:
            raise UsageError(_nothing_recorded(trace, None))
        return explain_peak(trace, max(accelerators, key=lambda peak: peak.in_use))
    peak = find_peak(trace, device)
    if not len(peak.lives):
        raise UsageError(_nothing_recorded(trace, device))
    return explain_peak(trace, peak)


def _nothing_recorded(trace: TraceData, device: str | None) -> str:
    seen = ", ".join(devices_with_memory(trace))
    if device is None or not seen:
        return "The trace has no memory events. Record a part of the program that allocates memory."
    return (
        f"The trace has no memory of {device}; it has memory of {seen}. Name one of these, or "
        "record a program that allocates memory there."
    )


def explain_peak(trace: TraceData, peak: PeakMoment) -> PeakMemory:
    """Account for every byte in use at a known moment; see :func:`memory_at_peak`."""
    lives, alive = peak.lives, alive_at(peak)
    blocks = _describe(trace, peak, alive)
    size, is_before = blocks.size_bytes, blocks.allocated_ns < 0
    known = int(size.sum())
    total = max(peak.in_use, known)
    may_be_gone = is_before & (lives.free[alive] < 0) & (lives.last_seen_ns[alive] < peak.time_ns)
    may_be_gone &= ~np.isin(lives.tensor_id[alive], list(modules_of_tensors(trace)))
    unseen = total - known
    stacks = [";".join(stack) or NO_STACK for stack in blocks.stack]
    groups = [
        group_blocks(names, size, is_before, unseen)
        for names in (blocks.category, blocks.module, blocks.operator, stacks, blocks.line)
    ]
    return PeakMemory(
        device=peak.device,
        time_ns=peak.time_ns,
        total_bytes=total,
        before_bytes=int(size[is_before].sum()) + unseen,
        unseen_bytes=unseen,
        uncertain_bytes=0 if peak.allocator_counts_all else int(size[may_be_gone].sum()),
        blocks=blocks,
        by_category=groups[0],
        by_module=groups[1],
        by_operator=groups[2],
        by_stack=groups[3],
        by_line=groups[4],
    )


def _describe(trace: TraceData, peak: PeakMoment, alive: Values) -> AliveBlocks:
    lives = peak.lives
    allocation, start = lives.allocation[alive], lives.start_ns[alive]
    table = trace.table("allocations")
    event = np.where(allocation >= 0, np.append(table["event"], -1)[allocation], -1)
    unknown = [
        "" if row >= 0 else ALLOCATED_BEFORE if since < 0 else NOT_RECORDED
        for row, since in zip(allocation.tolist(), start.tolist(), strict=True)
    ]
    code = categories_of_lives(trace, lives).at(peak.time_ns)[alive]
    operators = operators_of_events(trace, event)
    stacks = stacks_of_events(trace, event)
    lines = lines_of_events(trace, event)
    return AliveBlocks(
        size_bytes=lives.size_bytes[alive],
        allocated_ns=start,
        freed_ns=lives.end_ns[alive],
        allocation=allocation,
        category=[category_text(c) for c in code.tolist()],
        module=_modules(trace, event, lives.tensor_id[alive], unknown),
        operator=[why or operator for why, operator in zip(unknown, operators, strict=True)],
        stack=[(why,) if why else stack for why, stack in zip(unknown, stacks, strict=True)],
        line=[why or line or NO_LINE for why, line in zip(unknown, lines, strict=True)],
    )


def _modules(trace: TraceData, event: Values, tensor: Values, unknown: list[str]) -> list[str]:
    """Module of the allocating event, otherwise the module that holds the tensor."""
    holders = modules_of_tensors(trace)
    modules = []
    by_event = modules_of_events(trace, event)
    for module, tensor_id, why in zip(by_event, tensor.tolist(), unknown, strict=True):
        if module == OUTSIDE_MODULES:
            module = holders.get(tensor_id, why or OUTSIDE_MODULES)
        modules.append(module)
    return modules
