"""Events that torch.profiler would list, their nesting and their device work.

torch omits some events: bookkeeping operators, garbage collections, and an event whose parent has
the same name and no other child (``aten::sum`` calling ``aten::sum``), which is folded into that
parent. Asynchronous events are listed, but neither have nor are children. The averages, the tables
and the ``EventList`` all use this listing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import opscope._native as _native
from opscope.base.cached_property import cached_property
from opscope.columns.codes import EventKind, GpuKind
from opscope.columns.names import STEP_PREFIX
from opscope.columns.schema import AllocationAction
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Flags, Rows, Values
from opscope.timeline.tree.event_tree import (
    EventTree,
    Index,
    event_tree,
    minus_children,
    nearest_ancestor,
    subtree_sums,
)
from opscope.timeline.tree.frame_text import event_texts, own_texts
from opscope.timeline.tree.line_nesting import line_nesting, nest, outermost_of, own_times

MEMORY_NAME = "[memory]"
OUT_OF_MEMORY_NAME = "[OutOfMemory]"
HIDDEN_NAMES = frozenset(
    {
        MEMORY_NAME,
        OUT_OF_MEMORY_NAME,
        "profiler::_record_function_enter",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit",
        "aten::is_leaf",
        "aten::output_nr",
        "aten::_version",
    }
)
"""Names that torch omits from its lists: bookkeeping, and memory inside an event."""


class TorchListing:
    """The listed events of a trace. Arrays have shape (events,) unless noted.

    Attributes:
        tree: nesting as recorded.
        is_async: events that overlap others: they have no self time, parent or children.
        label: row in ``texts`` of an event's displayed name.
        texts: unique names.
        nested: listed and not asynchronous: has a parent and children.
        parent: nearest ``nested`` ancestor of every event, listed or not; -1 none.
    """

    _hidden_names = HIDDEN_NAMES
    _hides_collections = True

    def __init__(self, trace: TraceData) -> None:
        self.trace = trace
        self.tree: EventTree = event_tree(trace)
        self.label, self.texts = self._names()
        self._group_of_label, self.group_texts = self._averaged_names()
        # An event that is its parent's only child and has the same name is folded into it.
        self.is_async: Flags = trace.events["is_async"]
        self.listed: Flags
        self.nested: Flags
        self.parent: Index
        self.listed, self.nested, self.parent = _native.listing(
            np.ascontiguousarray(self.tree.parent),
            np.ascontiguousarray(trace.events["kind"]),
            np.ascontiguousarray(self.is_async),
            self.label,
            self._group_of_label,
            np.array([text in self._hidden_names for text in self.texts], dtype=np.bool_),
            self._hides_collections,
        )

    def _names(self) -> tuple[Rows, list[str]]:
        """Row in ``texts`` of every event's name."""
        return event_texts(self.trace)

    def _averaged_names(self) -> tuple[Rows, list[str]]:
        """Group of every label, and group names: all ``ProfilerStep#N`` are ``ProfilerStep*``."""
        rows: dict[str, int] = {}
        group = [rows.setdefault(averaged_name(text), len(rows)) for text in self.texts]
        return np.array(group, dtype=np.int32), list(rows)

    @cached_property
    def group_label(self) -> Rows:
        """Row in ``group_texts`` of the name that averages collect each event under."""
        if len(self.group_texts) == len(self.texts):
            return self.label
        return self._group_of_label[self.label]

    @cached_property
    def rows(self) -> Values:
        """Listed events, in order of start. Shape (listed,)."""
        return np.flatnonzero(self.listed)

    @property
    def duration_ns(self) -> Values:
        """Duration of every event."""
        return self.tree.duration_ns

    @cached_property
    def counted_ns(self) -> Values:
        """Duration of every event as totals count it."""
        return self.counted(self.duration_ns)

    def counted(self, total: Values) -> Values:
        """The part of each event's total value that sums by name count: all of it."""
        return total

    @cached_property
    def self_ns(self) -> Values:
        """Duration minus that of listed children; 0 for asynchronous events.

        If listed events do not nest by time, each instant belongs to the event that began last.
        """
        nesting = line_nesting(self.trace)
        if len(nesting.moved):
            return nest(self.trace, ~self.nested, self.parent).own_ns
        if nesting.is_as_recorded and self.nested.all():
            return nesting.own_ns
        return self.minus_children(self.duration_ns)

    def minus_children(self, value: Values) -> Values:
        """A value per event minus those of its listed children; 0 for asynchronous events."""
        own = minus_children(self.parent, value, self.nested)
        return own if self.nested.all() else np.where(self.nested, own, 0)

    @property
    def listed_parent(self) -> Index:
        """``parent`` of listed events as torch reports it: -1 for asynchronous ones."""
        return np.where(self.nested, self.parent, -1)

    @cached_property
    def holder(self) -> Values:
        """Nested event that each event's own activity counts for: itself or ``parent``."""
        return np.where(self.nested, np.arange(len(self.nested)), self.parent)

    @cached_property
    def loose_allocations(self) -> Values:
        """Rows of allocations and frees outside every listed event, and of all failed ones."""
        table = self.trace.table("allocations")
        failed = table["action"] == AllocationAction.OUT_OF_MEMORY
        event = self.trace.table("allocations")["event"]
        inside = event >= 0
        if not self.listed.all():
            around = nearest_ancestor(self.tree.parent, self.listed)
            inside = inside & (self.listed[event] | (around[event] >= 0))
        return np.flatnonzero(failed | ~inside)


def averaged_name(name: str) -> str:
    """The name under which averages collect an event."""
    return "ProfilerStep*" if name.startswith(STEP_PREFIX) else name


class OwnListing(TorchListing):
    """Every event, including collections and bookkeeping; each instant of a thread counts once.

    Events that torch folds into a caller of the same name are folded, too.
    """

    _hidden_names = frozenset()
    _hides_collections = False

    def _names(self) -> tuple[Rows, list[str]]:
        return own_texts(self.trace)

    @cached_property
    def self_ns(self) -> Values:
        """Own time of every event, including events folded into it."""
        own_ns = own_times(self.trace)
        folded = np.flatnonzero(~self.listed)
        if not len(folded):
            return own_ns
        own_ns = own_ns.copy()
        np.add.at(own_ns, self.parent[folded], own_ns[folded])
        return own_ns

    def counted(self, total: Values) -> Values:
        """The value, but 0 inside another event of the same name, whose value includes it."""
        return np.where(self._is_outermost, total, 0)

    @cached_property
    def _is_outermost(self) -> Flags:
        return outermost_of(self.trace, np.arange(len(self.listed)), self.group_label)


KERNEL, COPY, SET, SYNCHRONISATION, ANNOTATION = GpuKind

WORK_KINDS = (KERNEL, COPY, SET)  # kinds during which the device computes or moves data


def launched_work(trace: TraceData) -> Values:
    """Rows in ``gpu`` of work with a known launch. Shape (work,)."""
    gpu = trace.table("gpu")
    return np.flatnonzero(np.isin(gpu["kind"], WORK_KINDS) & (gpu["launch"] >= 0))


def launched_share(trace: TraceData) -> float:
    """Share of device work, by time, whose launch is known; 1 without any work."""
    took_ns, launched = trace.table("gpu")["duration_ns"], launched_work(trace)
    total_ns = int(took_ns[np.isin(trace.table("gpu")["kind"], WORK_KINDS)].sum())
    return int(took_ns[launched].sum()) / total_ns if total_ns > 0 else 1.0


@dataclass(frozen=True)
class DeviceTime:
    """Device nanoseconds per event, shape (events,)."""

    total_ns: Values  # of work launched during the event
    self_ns: Values  # of work launched outside listed children, and not by a runtime call in it
    launched: Values  # event that each row of ``gpu`` counts for, -1 none. Shape (gpu rows,)


def measure_device_time(listing: TorchListing) -> DeviceTime:
    """Attribute device work to the events that launched it."""
    gpu = listing.trace.table("gpu")
    events = len(listing.trace.events)
    launch = gpu["launch"]
    launched = np.full(len(gpu), -1, dtype=np.int64)
    known = (launch >= 0) & np.isin(gpu["kind"], WORK_KINDS)
    launched[known] = listing.holder[_launchers(listing)[launch[known]]]
    own_ns = np.zeros(events, dtype=np.int64)
    counted = launched >= 0
    np.add.at(own_ns, launched[counted], gpu["duration_ns"][counted])
    if not counted.any():
        return DeviceTime(own_ns, own_ns, launched)
    return DeviceTime(subtree_sums(listing.listed_parent, own_ns), own_ns, launched)


def _launchers(listing: TorchListing) -> Values:
    """Event that each event's launches count for: itself, or the caller of a runtime call."""
    events = listing.trace.events
    launcher = np.arange(len(events), dtype=np.int64)
    is_call = events["kind"] == EventKind.RUNTIME_CALL
    for _ in range(2):  # two levels: a runtime call may contain a driver call
        inside = np.flatnonzero(is_call[launcher] & (events["parent"][launcher] >= 0))
        launcher[inside] = events["parent"][launcher[inside]]
    return launcher


def listed_gpu_rows(listing: TorchListing) -> Values:
    """Rows of ``gpu`` that torch lists as events: all but synchronisations."""
    return np.flatnonzero(listing.trace.table("gpu")["kind"] != SYNCHRONISATION)
