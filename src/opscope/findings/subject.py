"""``Subject``: a trace with the columns that patterns share, each computed at its first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.divided import main_row
from opscope.analysis.sites import Sites
from opscope.base.cached_property import cached_property
from opscope.base.quantity_text import share_text
from opscope.columns.codes import DeviceType
from opscope.columns.names import ENGINE_PREFIX
from opscope.columns.row_groups import group_rows, order_rows
from opscope.columns.schema import AllocationAction, EventKind, RecordScope, Role
from opscope.columns.shapes import element_counts
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.findings.line_calls import LineCalls, calls_of_lines
from opscope.findings.program_time import program_time
from opscope.timeline.listing import WORK_KINDS, TorchListing, launched_work
from opscope.timeline.period import wall_bounds
from opscope.timeline.tree.event_tree import (
    event_tree,
    minus_children,
    nearest_ancestor,
    subtree_sums,
)
from opscope.timeline.waits import waits_for_device

T = TypeVar("T")
Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_FIXED_COST_PERCENTILE = 5
MOST_FIXED_COST_NS, _LEAST_CALL_COST_NS = 15_000, 3_000
"""Limits of the cost of a call; large operators say nothing about it, even the fastest."""

_MUCH_OF_A_CALL = 0.4
"""Share of a call that its operators take, below which it does something else too."""
FLOPS_A_NS = 64  # Floating-point operations per nanosecond of one thread on an ordinary CPU
FLOAT_BYTES = 4
VIEWS = tuple(f"aten::{name}" for name in (
    "t", "transpose", "permute", "view", "_unsafe_view", "reshape", "flatten", "unflatten",
    "expand", "as_strided", "select", "slice", "narrow", "squeeze", "unsqueeze", "unbind", "split",
    "chunk", "alias", "diagonal", "numpy_T",
))  # fmt: skip
"""Operators whose result is the memory of their argument."""
"""Autograd's span around each node of a backward pass; it has the node's number."""

_TAKEN_AND_FREED = (AllocationAction.ALLOCATE, AllocationAction.FREE)
HOST = DeviceType.CPU
CUDA = DeviceType.CUDA  # c10::DeviceType of tensors on NVIDIA and AMD GPUs
FEW_DROPPED = 0.01  # share of events that may be missing without a doubt about times


def dropped_share(trace: TraceData) -> float:
    """Share of the requested events that were dropped."""
    ledger = trace.ledger
    dropped, requested = ledger.lost("events"), ledger.get("events", {}).get("requested", 0.0)
    # Files of other tools have the number of dropped events, but not of requested ones.
    return dropped / max(requested, len(trace.events) + dropped, 1.0)


class Subject:
    """A trace with columns for patterns.

    Arrays have shape (events,) unless stated otherwise; rows are rows of ``events``.

    Attributes:
        recorded: the trace with its recorded times, which counters and samples refer to.
    """

    def __init__(self, trace: TraceData, listing: TorchListing | None = None) -> None:
        self._made: dict[Callable[[Subject], Any], Any] = {}
        self.recorded = trace
        self.listing = listing or TorchListing(trace)
        self.parent = self.listing.tree.parent

    def once(self, make: Callable[[Subject], T]) -> T:
        """Result of ``make`` for this subject, computed at the first call."""
        if make not in self._made:
            self._made[make] = make(self)
        made: T = self._made[make]
        return made

    # The time.

    @cached_property
    def trace(self) -> TraceData:
        """The recording without profiling overhead and without waits for a CPU."""
        return program_time(self.recorded)

    @property
    def events(self) -> Table:
        """Events of ``trace``."""
        return self.trace.events

    @property
    def start_ns(self) -> Values:
        """Start of each event on the host, Unix nanoseconds of ``trace``."""
        return self.trace.events["start_ns"]

    @cached_property
    def end_ns(self) -> Values:
        """End of each event on the host."""
        return self.start_ns + event_tree(self.trace).duration_ns

    @cached_property
    def duration_ns(self) -> Values:
        """Host time, with the launched device work in place of waits for it.

        This makes operators on devices and on the host comparable. :mod:`opscope.findings.saving`
        handles their overlap.
        """
        return self.host_ns + self.sums(self.launched_ns)

    @cached_property
    def host_ns(self) -> Values:
        """Time of each event on the host without waits for devices."""
        took = self.end_ns - self.start_ns
        if not len(self.trace.table("gpu")):
            return took
        waiting = self.outermost_of(self.labelled(waits_for_device))
        return took - self.sums(np.where(waiting, took, 0))

    @cached_property
    def launched_ns(self) -> Values:
        """Device work that each event launched itself, outside the event's own time.

        Copies from pageable memory end before their call returns.
        """
        work, gpu = launched_work(self.trace), self.trace.table("gpu")
        call, start, took = (gpu[name][work] for name in ("launch", "start_ns", "duration_ns"))
        during = np.minimum(self.end_ns[call], start + took)
        during -= np.maximum(self.start_ns[call], start)
        beyond = took - np.maximum(during, 0)
        return np.bincount(call, beyond, len(self.parent)).astype(np.int64)

    @cached_property
    def wall_ns(self) -> int:
        """Time that shares refer to: from the first start to the last end; at least 1."""
        first, last = wall_bounds(self.trace)
        return max(last - first, 1)

    def time_ns(self, rows: Values | Flags) -> int:
        """Sum of the durations of some events."""
        return int(self.duration_ns[rows].sum())

    def share(self, time_ns: float) -> str:
        """Share of the time, as text."""
        return share_text(time_ns / self.wall_ns)

    @cached_property
    def own_ns(self) -> Values:
        """Duration minus the durations of direct children."""
        return minus_children(self.parent, self.duration_ns)

    @cached_property
    def operator_self_ns(self) -> Values:
        """Duration minus the durations of operators directly inside."""
        return minus_children(
            np.where(self.is_operator, self.operator_parent, -1), self.duration_ns
        )

    # Which events.

    def flags(self, rows: Values) -> Flags:
        """Which events are among ``rows``, and a last False for row -1. Shape (events + 1,)."""
        found = np.zeros(len(self.parent) + 1, dtype=np.bool_)
        found[rows] = True
        found[-1] = False
        return found

    def inside(self, around: Flags) -> Values:
        """Nearest ancestor of each event among ``around``, -1 for none."""
        return nearest_ancestor(self.parent, around[: len(self.parent)]).astype(np.int64)

    def within(self, around: Flags) -> Flags:
        """Whether each event has an ancestor in ``around``."""
        return np.asarray(self.inside(around) >= 0)

    def outermost_of(self, events: Flags) -> Flags:
        """Whether an event is in ``events`` and not inside another one of them."""
        return np.asarray(events & ~self.within(events))

    def sums(self, of: Values | Flags) -> Values:
        """Sum over each event and all events inside of it."""
        return subtree_sums(self.parent, of.astype(np.int64, copy=False))

    def during(self, spans: Values) -> Values:
        """The latest of ``spans`` that was open on its thread when each event began, -1 for none.

        By time, because an annotation begins inside the call that opens it and outlives the call:
        later events are not nested in it. A span is not inside itself.
        """
        result = np.full(len(self.parent), -1, dtype=np.int64)
        thread = self.events["thread"]
        for number in np.unique(thread[spans]):
            own, rows = spans[thread[spans] == number], np.flatnonzero(thread == number)
            latest = own[
                np.maximum(np.searchsorted(self.start_ns[own], self.start_ns[rows], "right") - 1, 0)
            ]
            begun = self.start_ns[latest] <= self.start_ns[rows]
            inside = begun & (self.start_ns[rows] < self.end_ns[latest]) & (rows != latest)
            result[rows[inside]] = latest[inside]
        return result

    @cached_property
    def is_main(self) -> Flags:
        """Whether each event is on the thread with most operators; without any, most events."""
        return np.asarray(self.events["thread"] == main_row(self.trace))

    @cached_property
    def is_operator(self) -> Flags:
        """Whether each event is an operator."""
        return np.asarray(self.events["kind"] == EventKind.OPERATOR)

    @cached_property
    def is_backward(self) -> Flags:
        """Whether each event is an operator of a backward pass."""
        scope = self.events["scope"]
        return np.asarray(self.is_operator & (scope == RecordScope.BACKWARD_FUNCTION))

    @cached_property
    def is_module_call(self) -> Flags:
        """Whether each event is the call of a module."""
        return np.asarray(self.events["kind"] == EventKind.MODULE_CALL)

    @cached_property
    def is_training(self) -> Flags:
        """Whether each event is part of a backward pass, or a step of an optimizer."""
        step = self.events["kind"] == EventKind.OPTIMIZER_CALL
        return np.asarray(self.is_backward | step | self.name_contains("Optimizer.step#"))

    @cached_property
    def _computes(self) -> Flags:
        """Operators without functions of the program inside; a ``Function`` only calls others."""
        return np.asarray(self.is_operator & (self.sums(self.sites.defined_here) == 0))

    @cached_property
    def operator_parent(self) -> Values:
        """The nearest operator around each event, -1 for none."""
        return self.inside(self._computes)

    @cached_property
    def is_outermost(self) -> Flags:
        """Operators that no other operator called."""
        return self._computes & (self.operator_parent < 0)

    @cached_property
    def outermost(self) -> Values:
        """Rows of outermost operators, in order of start."""
        return np.flatnonzero(self.is_outermost)

    @cached_property
    def outermost_operator(self) -> Values:
        """The outermost operator around each event or itself, -1 for none."""
        around = self.inside(self.is_outermost)
        return np.where(self.is_outermost, np.arange(len(around)), around)

    # Names.

    @cached_property
    def names_used(self) -> dict[str, int]:
        """Row in names of every event name, by text."""
        used = np.flatnonzero(np.bincount(self.events["name"] + 1, minlength=1)) - 1
        return {self.trace.names[row]: int(row) for row in used.tolist() if row >= 0}

    @cached_property
    def kind_of_name(self) -> Values:
        """A number for each event's name without instance number (Linear_3); -1 for no name."""
        numbers: dict[str, int] = {}
        of_name = np.full(len(self.trace.names) + 1, -1, dtype=np.int64)
        for text, row in self.names_used.items():
            of_name[row] = numbers.setdefault(text.rstrip("0123456789"), len(numbers))
        return of_name[self.events["name"]]

    def named(self, *texts: str) -> Flags:
        """Which events have one of these names."""
        return self._with_name([self.names_used[text] for text in texts if text in self.names_used])

    def name_contains(self, *parts: str) -> Flags:
        """Which events have a name that contains one of ``parts``."""
        rows = [row for text, row in self.names_used.items() if any(p in text for p in parts)]
        return self._with_name(rows)

    def labelled(self, predicate: Callable[[str], bool]) -> Flags:
        """Which events have a listing text that ``predicate`` accepts."""
        wanted = np.array([predicate(text) for text in self.listing.texts], dtype=np.bool_)
        return np.asarray(wanted[self.listing.label])

    def calls_of(self, *files: str, name: str = "") -> Flags:
        """Calls of Python functions with one of ``files`` in their path, and this name if given."""
        wanted = self._frames_with("file", lambda path: any(file in path for file in files))
        if name:
            wanted &= self._frames_with("function", lambda function: function == name)
        return np.append(wanted, False)[self.sites.frame]

    def _frames_with(self, column: str, predicate: Callable[[str], bool]) -> Flags:
        """Which frames have a text in ``column`` that ``predicate`` accepts."""
        used, row = np.unique(self.trace.table("frames")[column], return_inverse=True)
        found = [predicate(self.trace.names[name]) for name in used.tolist()]
        return np.array(found, dtype=np.bool_)[row.reshape(-1)]

    def _with_name(self, rows: list[int]) -> Flags:
        found, (order, begin) = np.zeros(len(self.parent), dtype=np.bool_), self._by_name
        for row in rows:
            found[order[begin[row + 1] : begin[row + 2]]] = True
        return found

    @cached_property
    def _by_name(self) -> tuple[Values, Values]:
        """Events sorted by name, unnamed ones first, and the begin of each name."""
        name = self.events["name"]
        count = np.bincount(name + 1, minlength=len(self.trace.names) + 1)
        return order_rows(name), np.append(0, np.cumsum(count))

    # Lines of the program.

    @cached_property
    def sites(self) -> Sites:
        """Call sites in the program."""
        return Sites(self.listing)

    @cached_property
    def line_calls(self) -> LineCalls:
        """Calls by line of the program."""
        return calls_of_lines(
            self.sites,
            self.parent,
            (self.start_ns, self.end_ns),
            self.kind_of_name,
            is_pause=self.events["kind"] == EventKind.GC_PAUSE,
            is_node=self.name_contains(ENGINE_PREFIX),
        )

    def with_callers_ns(self, operators: Values) -> int:
        """Time of operators, with library calls around them that do almost nothing else."""
        going = self.flags(operators)[:-1]
        of = going & self.is_outermost
        inside, took = self.sums(of), self.sums(np.where(of, self.duration_ns, 0))
        whole = (inside > 0) & (inside == self.sums(self.is_outermost))
        whole &= ~self.sites.defined_here & (self.operator_parent < 0)
        whole &= took >= _MUCH_OF_A_CALL * self.duration_ns
        return self.time_ns(self.outermost_of(whole | going))

    # What calling an operator costs.

    @cached_property
    def fixed_cost_ns(self) -> int:
        """Time from one operator to the next when Python calls them as fast as possible.

        The 5th percentile between starts of outermost operators of a thread: Python, dispatch, and
        almost no work.
        """
        rows = self.outermost
        order = np.argsort(self.events["thread"][rows], kind="stable")
        apart = np.diff(self.start_ns[rows][order])
        apart = apart[np.diff(self.events["thread"][rows][order]) == 0]
        fastest = int(np.percentile(apart, _FIXED_COST_PERCENTILE)) if len(apart) else 0
        return min(fastest, MOST_FIXED_COST_NS)

    @property
    def call_cost_ns(self) -> int:
        """Cost of calling an operator that hardly computes: twice the fastest, with limits."""
        return int(np.clip(2 * self.fixed_cost_ns, _LEAST_CALL_COST_NS, MOST_FIXED_COST_NS))

    @cached_property
    def work_ns(self) -> Values:
        """Time of each outermost operator beyond the cost of calling it; 0 for other events.

        Negative for quick operators; only sums over many are meaningful.
        """
        result = np.zeros(len(self.parent), dtype=np.int64)
        rows = self.outermost
        if not len(rows):
            return result
        took = self.duration_ns[rows]
        inner = self.call_cost_ns * self.sums(self.is_operator)[rows]
        result[rows] = took - np.minimum(took, inner)
        return result

    # Arguments and memory.

    @cached_property
    def elements(self) -> Values:
        """Number of elements of each row of ``tensors``; a last 0 is for row -1."""
        return np.append(element_counts(self.trace.table("tensors").lists("sizes")), 0)

    def tensor_argument(self, position: int) -> Values:
        """Row in ``tensors`` of one positional argument; the first of a list; -1 for none."""
        table = self.trace.table("tensors")
        return self._argument_rows(table, position, table["element"] <= 0)

    def tensor_column(self, column: str, rows: Values) -> Values:
        """Values of a column of ``tensors`` at ``rows`` of that table; -1 where the row is -1."""
        values = self.trace.table("tensors")[column]
        if not len(values):
            return np.full(len(rows), -1, dtype=np.int64)
        return np.where(rows >= 0, values[rows].astype(np.int64), -1)

    def scalar_argument(self, position: int) -> Values:
        """Row in names of the text of one positional argument, -1 for none."""
        table = self.trace.table("scalars")
        rows = self._argument_rows(table, position, np.ones(len(table), dtype=np.bool_))
        values = table["value"].astype(np.int64)
        return np.where(rows >= 0, values[rows], -1) if len(values) else rows

    def _argument_rows(self, table: Table, position: int, wanted: Flags) -> Values:
        wanted = wanted & (table["role"] == Role.INPUT) & (table["argument"] == position)
        rows = np.flatnonzero(wanted)
        found = np.full(len(self.parent), -1, dtype=np.int64)
        found[table["event"][rows]] = rows
        return found

    @cached_property
    def wants_gradients(self) -> Flags:
        """Whether each event got a tensor that requires gradients."""
        tensors = self.trace.table("tensors")
        return self.flags(tensors["event"][tensors["requires_grad"]])[:-1]

    @cached_property
    def bytes_made(self) -> Values:
        """Bytes that each outermost operator, with its inner ones, allocated and did not free."""
        table = self.trace.table("allocations")
        around = np.append(self.outermost_operator, -1)[np.maximum(table["event"], -1)]
        known = (around >= 0) & np.isin(table["action"], _TAKEN_AND_FREED)
        around, size = around[known], np.abs(table["size_bytes"][known])
        is_taken = table["action"][known] == AllocationAction.ALLOCATE
        # Without allocation ids, no allocation matches a free.
        block = table["allocation_id"][known].astype(np.int64)
        same = group_rows(np.where(block >= 0, block, -2 - np.arange(len(block))), around)
        stays = is_taken & (np.bincount(same.group, ~is_taken)[same.group] == 0)
        return np.bincount(around[stays], size[stays], len(self.parent)).astype(np.int64)

    # Devices.

    @cached_property
    def device_work(self) -> tuple[Values, Values]:
        """Start and end of kernels and copies on devices, in order of start."""
        gpu = self.trace.table("gpu")
        work = np.flatnonzero(np.isin(gpu["kind"], WORK_KINDS))
        work = work[np.argsort(gpu["start_ns"][work], kind="stable")]
        start = gpu["start_ns"][work]
        return start, start + gpu["duration_ns"][work]

    @cached_property
    def has_device(self) -> bool:
        """Whether a GPU took part: it was recorded, or tensors were on one."""
        tensors = self.trace.table("tensors")
        return len(self.trace.table("gpu")) > 0 or bool((tensors["device_type"] == CUDA).any())
