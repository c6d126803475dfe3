"""Source of an EventList: the listed rows of a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.analysis.flops import FlopCounts, count_flops
from opscope.analysis.torch_listing.averages import Averages, key_averages
from opscope.analysis.torch_listing.rows import ListedRows, RowSource, list_rows
from opscope.base.cached_property import cached_property
from opscope.columns.trace_data import TraceData
from opscope.timeline.listing import TorchListing, measure_device_time
from opscope.timeline.stacks import Stacks
from opscope.timeline.tree.arguments import Arguments
from opscope.timeline.tree.event_tree import group_by_parent
from opscope.timeline.tree.frame_text import python_events
from opscope.timeline.tree.links import forward_backward_links, thread_numbers
from opscope.torch_api.event.parts import EXPOSES_METADATA, Kernel

Values = npt.NDArray[np.int64]


class ListedTrace:
    """A trace as positions 0, 1, … of torch's event list; everything is computed on first use."""

    trace: TraceData
    use_device: str | None

    def __init__(
        self,
        trace: TraceData,
        use_device: str | None,
        with_flops: bool,
        with_stack: bool,
        make_event: Callable[[ListedTrace, int], Any],
    ) -> None:
        """``make_event`` creates the object of the event at a position."""
        self.trace = trace
        self.use_device = use_device
        self.with_flops = with_flops
        self.with_stack = with_stack
        self._make_event = make_event
        self._created: dict[int, Any] = {}

    def event(self, position: int) -> Any:
        """The event at a position; always the same object."""
        event = self._created.get(position)
        if event is None:
            event = self._created[position] = self._make_event(self, position)
        return event

    def averages(
        self, by_shape: bool, stack_n: int, by_overload: bool, python_functions: bool
    ) -> Averages:
        """Averages of all events, or of all except Python calls."""
        averages = key_averages(
            self.trace, by_shape, stack_n, by_overload, self.flops, self.listing, self.rows
        )
        if python_functions:
            return averages
        first = averages.first
        event = np.where(self.rows.source[first] == RowSource.EVENT, self.rows.row[first], -1)
        return averages.of(np.flatnonzero((event < 0) | ~python_events(self.trace)[event]))

    @cached_property
    def listing(self) -> TorchListing:
        """Listed events and their nesting."""
        return TorchListing(self.trace)

    @cached_property
    def rows(self) -> ListedRows:
        """The row at each position."""
        return list_rows(self.listing, self.flops)

    @cached_property
    def flops(self) -> FlopCounts | None:
        """Operations of every event, if requested."""
        return count_flops(self.trace) if self.with_flops else None

    @cached_property
    def stacks(self) -> Stacks | None:
        """Python stacks, if requested."""
        return Stacks(self.listing) if self.with_stack else None

    @cached_property
    def arguments(self) -> Arguments:
        """Arguments of events."""
        return Arguments(self.trace)

    @cached_property
    def origin_ns(self) -> int:
        """Zero of the list's times: the start of the recording."""
        start = self.trace.metadata.get("start_ns")
        if isinstance(start, int):
            return start
        times = self.trace.events["start_ns"]
        return int(times[0]) if len(times) else 0

    @cached_property
    def process_id(self) -> int:
        """Id of the recorded process; 0 if unknown."""
        value = self.trace.metadata.get("process_id")
        return value if isinstance(value, int) else 0

    @cached_property
    def exposes_metadata(self) -> bool:
        """Whether events show additional metadata of files."""
        return bool(self.trace.metadata.get(EXPOSES_METADATA))

    @cached_property
    def thread_numbers(self) -> Values:
        """torch's thread id of every event."""
        return thread_numbers(self.trace)

    @cached_property
    def positions(self) -> Values:
        """Position of every row of ``events``, -1 if it is not listed. Shape (events,)."""
        position = np.full(len(self.trace.events), -1, dtype=np.int64)
        is_event = np.flatnonzero(self.rows.source == RowSource.EVENT)
        position[self.rows.row[is_event]] = is_event
        return position

    @cached_property
    def parent(self) -> Values:
        """Listed parent of every listed event, as rows of ``events``; -1 without one."""
        return np.where(self.listing.nested, self.listing.parent, -1)

    @cached_property
    def _children(self) -> tuple[Values, Values]:
        return group_by_parent(self.parent)

    def children(self, event: int) -> list[Any]:
        """Events directly inside an event, in order of start."""
        offsets, rows = self._children
        inside = rows[offsets[event] : offsets[event + 1]]
        return [self.event(int(position)) for position in self.positions[inside]]

    def parent_of(self, event: int) -> Any:
        """The event that directly contains an event; None without one."""
        parent = int(self.parent[event])
        return self.event(int(self.positions[parent])) if parent >= 0 else None

    @cached_property
    def _launched(self) -> tuple[Values, Values]:
        """Rows of ``gpu`` by the event that they count for: sorted events, and the rows."""
        launched = measure_device_time(self.listing).launched
        rows = np.argsort(launched, kind="stable")
        return launched[rows], rows

    def kernels(self, event: int) -> list[Kernel]:
        """Device work that an event launched."""
        events, rows = self._launched
        first, last = np.searchsorted(events, [event, event + 1])
        gpu, names = self.trace.table("gpu"), self.trace.names
        return [
            Kernel(
                names[gpu["name"][row]],
                int(gpu["device_index"][row]),
                float(gpu["duration_ns"][row]) / 1000,
            )
            for row in rows[first:last]
        ]

    def device_time_total_us(self, position: int) -> float:
        """Device time of the event at a position, including everything inside it."""
        total = self.rows.quantities.get("device_total_ns")
        return 0 if total is None else float(total[position]) / 1000

    @cached_property
    def flows(self) -> dict[int, tuple[int, bool]]:
        """Forward to backward arrows: event to (id from 1, whether the arrow starts there)."""
        links = forward_backward_links(self.trace)
        flow_ends: dict[int, tuple[int, bool]] = {}
        pairs = zip(links.source.tolist(), links.target.tolist(), strict=True)
        for number, (source, target) in enumerate(pairs, start=1):
            flow_ends[source], flow_ends[target] = (number, True), (number, False)
        return flow_ends

    @cached_property
    def python_numbers(self) -> Values:
        """Number from 1 of every event that is a Python call, else -1. Shape (events,)."""
        is_python = python_events(self.trace)
        return np.where(is_python, np.cumsum(is_python), -1)

    @cached_property
    def module_rows(self) -> dict[int, int]:
        """Row in ``modules`` of every event that is a module call."""
        calls = self.trace.table("python_calls")
        with_module = np.flatnonzero(calls["module"] >= 0)
        rows = calls["event"][with_module].tolist(), calls["module"][with_module].tolist()
        return dict(zip(*rows, strict=True))
