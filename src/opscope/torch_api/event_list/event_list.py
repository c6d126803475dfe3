"""``EventList``: a trace as the list of events that torch.profiler returns.

Events that are not from a trace are nested here by thread and time. The class replaces torch's in
every recorded program, so its methods import what only they need; a profiler imports that before
it records (:func:`import_views`).
"""

from __future__ import annotations

import functools
import importlib
import json
from collections import defaultdict
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opscope.columns.schema import RecordScope
from opscope.columns.trace_data import TraceData
from opscope.torch_api.event.function_event import FunctionEvent
from opscope.torch_api.event.function_event_avg import AverageObjects, FunctionEventAvg
from opscope.torch_api.event.parts import is_cpu
from opscope.torch_api.event_list.lazy_list import LazyList
from opscope.torch_api.event_list.torch_terms import averages_python_functions

if TYPE_CHECKING:
    from opscope.torch_api.event.listed_trace import ListedTrace
    from opscope.torch_api.event_list.table_rows import TableRows

_VIEWS = (
    *("columns.concat", "export.collapsed_stacks", "torch_api.event.attributes"),
    *("torch_api.event_list.text_table", "torch_api.event_tree.profiler_tree"),
)


@functools.cache
def import_views() -> None:
    """Import what methods of events need: a child forked during an import would wait forever."""
    for name in _VIEWS:
        importlib.import_module(f"opscope.{name}")


Event = Any  # a FunctionEvent in lists of events, a FunctionEventAvg in lists of averages


def nest_events(events: Iterable[Event]) -> None:
    """Make each event a child of the shortest event around it on its thread.

    Events that only overlap, asynchronous events and device events are not nested.
    """
    threads: defaultdict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        if not event.is_async and is_cpu(event.device_type):
            threads[event.thread, event.node_id].append(event)
    for thread_events in threads.values():
        thread_events.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
        enclosing: list[Event] = []
        for event in thread_events:
            while enclosing and not _contains(enclosing[-1].time_range, event.time_range):
                enclosing.pop()
            if enclosing:
                enclosing[-1].append_cpu_child(event)
                event.set_cpu_parent(enclosing[-1])
            enclosing.append(event)


def _contains(outer: Any, inner: Any) -> bool:
    return bool(inner.start < outer.end and inner.end <= outer.end)


def without_duplicates(events: list[Event]) -> list[Event]:
    """The events without those that repeat their parent: its only child, with the same name.

    Children and device work of a removed event move to its parent.
    """
    kept = list(events)
    while True:
        repeated = {id(event) for event in kept if _repeats_parent(event)}
        if not repeated:
            return kept
        for event in kept:
            # Check again: the parent's removal may change the result.
            if id(event) in repeated and _repeats_parent(event):
                _replace_by_children(event)
            else:
                repeated.discard(id(event))
        kept = [event for event in kept if id(event) not in repeated]


def _repeats_parent(event: Event) -> bool:
    parent = event.cpu_parent
    return parent is not None and parent.name == event.name and len(parent.cpu_children) == 1


def _replace_by_children(event: Event) -> None:
    parent = event.cpu_parent
    parent.cpu_children, parent.kernels = event.cpu_children, event.kernels
    for child in event.cpu_children:
        child.cpu_parent = parent


def give_backward_stacks(events: Iterable[Event]) -> None:
    """Give events of the backward pass the stack of their forward operator."""
    forward: dict[tuple[int, int], list[str]] = {}
    in_backward: list[tuple[Event, Event]] = []
    for event in events:
        node = _backward_node(event)
        if node is not None:
            in_backward.append((event, node))
        elif event.stack is not None:
            forward.setdefault((event.sequence_nr, event.thread), event.stack)
    for event, node in in_backward:
        event.stack = forward.get((node.sequence_nr, node.fwd_thread), [])


def _backward_node(event: Event) -> Event | None:
    while event is not None and event.scope != RecordScope.BACKWARD_FUNCTION:
        event = event.cpu_parent
    return event


class EventList(LazyList[Event]):
    """Events, or averages of events, with tables and exports.

    A list made from a trace uses the trace's columns and creates events on access. A changed list,
    or one made from events, uses its events.
    """

    def __init__(
        self,
        events: Iterable[Event] = (),
        *,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
    ) -> None:
        super().__init__(events)
        self._use_device = use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops
        self._tree_built = False
        self._source: ListedTrace | None = None
        self._averages: AverageObjects | None = None

    def _build_tree(self) -> None:
        """Nest the events by thread and time, like torch; events of a trace are nested already."""
        self._populate_cpu_children()
        self._remove_dup_nodes()
        self._set_backward_stacktraces()
        self._tree_built = True

    def _populate_cpu_children(self) -> None:
        if self._columns is None:
            nest_events(self)

    def _remove_dup_nodes(self) -> None:
        if self._columns is None:
            self[:] = without_duplicates(self)

    def _set_backward_stacktraces(self) -> None:
        if self._columns is None:
            give_backward_stacks(self)

    @property
    def _columns(self) -> ListedTrace | None:
        """The trace, while the list is unchanged and has all its events."""
        return self._source if self.as_made and self._averages is None else None

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        """The averages with most self time, or the first events of a list of events."""
        key = "self_cpu_time_total" if self._averages is not None else None
        return f"<pre>{escape(self.table(sort_by=key, row_limit=20))}</pre>"

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int | None = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as a text table.

        Args:
            sort_by: column to sort by, largest first, such as ``self_cpu_time_total``; by default
                rows are in order of first appearance.
            row_limit: maximum number of rows; -1 or None for all.
            max_src_column_width: maximum width of source locations.
            max_name_column_width: maximum width of names.
            max_shapes_column_width: maximum width of argument shapes.
            header: a line above the table.
            top_level_events_only: omit events inside other events.
            time_unit: ``s``, ``ms`` or ``us``; by default one that suits each value.

        Raises:
            UsageError: unknown sort key or time unit; the message lists the known ones.
        """
        from opscope.torch_api.event_list.text_table import TableOptions, footer, format_table

        options = TableOptions(
            sort_by=sort_by,
            row_limit=row_limit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
            header=header,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )
        below = footer(self._source.trace, self._source.flops) if self._source is not None else ""
        return format_table(self._rows(top_level_events_only), options) + below

    def _rows(self, needs_parents: bool) -> TableRows:
        from opscope.torch_api.event_list import table_rows

        averages = self._averages
        if self._columns is not None:
            return table_rows.rows_of_source(self._columns)
        if averages is not None and self.as_made and averages.are_untouched:
            return table_rows.rows_of_averages(averages.averages, averages.source)
        return table_rows.rows_of_objects(self, needs_parents)

    @property
    def self_cpu_time_total(self) -> float:
        """Sum of self CPU times, microseconds."""
        if self._columns is not None:
            return self._total("cpu_self_ns") / 1000
        total: float = sum(event.self_cpu_time_total for event in self)
        return total

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool | None = None,
    ) -> EventList:
        """Averages by name, as a list of :class:`FunctionEventAvg`.

        Args:
            group_by_input_shapes: separate rows for different argument shapes.
            group_by_stack_n: separate rows for different stacks of the innermost n frames.
            group_by_overload_name: separate rows for different operator overloads.
            include_python_functions: also Python calls; by default as this torch does: until 2.13.
        """
        if include_python_functions is None:
            include_python_functions = averages_python_functions()
        grouping = (group_by_input_shapes, group_by_stack_n, group_by_overload_name)
        source = self._columns
        if source is not None:
            averages = source.averages(*grouping, include_python_functions)
            listed = self._like(())
            listed._averages = objects = AverageObjects(averages, source)
            listed.fill_lazily(len(objects), objects.at)
            return listed
        groups: defaultdict[tuple[Any, ...], FunctionEventAvg] = defaultdict(FunctionEventAvg)
        for event in self:
            if not include_python_functions and getattr(event, "is_python_function", False):
                continue
            groups[_key(event, *grouping)].add(event)
        for average in groups.values():
            average.stack = (average.stack or [])[:group_by_stack_n]
            average.input_shapes = average.input_shapes if group_by_input_shapes else ""
            average.overload_name = average.overload_name if group_by_overload_name else ""
        return self._like(groups.values())

    def total_average(self) -> FunctionEventAvg:
        """One average of all events, named ``Total``."""
        if self._columns is not None:
            return self.key_averages(include_python_functions=True).total_average()
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
            total.key = None
        total.key = "Total"
        return total

    def export_chrome_trace(self, path: str | Path) -> None:
        """Write a Chrome trace: the whole recording, or the given events without one.

        Raises:
            UsageError: the path cannot be written.
        """
        if self._source is not None:
            from opscope.export.chrome.writer import write_chrome_trace

            write_chrome_trace(self._source.trace, path)
        else:
            _write_events(self, path)

    def supported_export_stacks_metrics(self) -> list[str]:
        """Values of ``metric`` for ``export_stacks``."""
        from opscope.export.collapsed_stacks import METRICS

        return list(METRICS)

    def export_stacks(self, path: str | Path, metric: str) -> None:
        """Write collapsed stacks, weighed by ``metric`` in microseconds.

        Raises:
            UsageError: unknown metric, no stacks, or the path cannot be written.
        """
        from opscope.export import collapsed_stacks as stacks

        stacks.check_metric(metric)
        if self._columns is not None:
            stacks.write_stacks(self._columns.trace, path, metric)
            return
        on_cpu = metric == stacks.METRICS[0]
        attribute = "self_cpu_time_total" if on_cpu else "self_device_time_total"
        pairs = ((event.stack, int(getattr(event, attribute))) for event in self if event.stack)
        stacks.write_collapsed(((stack, value) for stack, value in pairs if value > 0), path)

    def _like(self, events: Iterable[Event]) -> EventList:
        result = EventList(
            events,
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )
        result._source = self._source
        return result

    def _total(self, quantity: str) -> float:
        assert self._source is not None, "only called for lists made from a trace"
        return float(np.sum(self._source.rows.quantities.get(quantity, 0)))


def make_event_list(
    trace: TraceData,
    *,
    use_device: str | None = None,
    profile_memory: bool = False,
    with_flops: bool = False,
    with_stack: bool = False,
) -> EventList:
    """Events of ``trace`` as torch.profiler lists them, created on access.

    Args:
        use_device: name for the device columns; by default from the device in the trace.
        profile_memory: show memory columns.
        with_flops: count floating point operations and show them.
        with_stack: give events their Python stacks.
    """
    from opscope.torch_api.event.listed_trace import ListedTrace

    events = EventList(
        use_device=use_device or _device_in(trace),
        profile_memory=profile_memory,
        with_flops=with_flops,
    )
    source = ListedTrace(trace, events._use_device, with_flops, with_stack, FunctionEvent.of_trace)
    events._source = source
    events.fill_lazily(len(source.rows), source.event)
    return events


_DEVICE_NAMES = {1: "cuda", 6: "hip", 12: "xpu", 20: "privateuse1"}


def _device_in(trace: TraceData) -> str | None:
    types = trace.table("gpu")["device_type"]
    return _DEVICE_NAMES.get(int(types[0]), "cuda") if len(types) else None


def _key(event: Event, by_shape: bool, stack_n: int, by_overload: bool) -> tuple[Any, ...]:
    device = getattr(event.device_type, "name", event.device_type)
    key = [event.key, event.node_id, device, event.is_legacy, event.is_user_annotation]
    key.append(event.overload_name if by_overload else "")
    key.append(str(event.input_shapes) if by_shape else "")
    return (*key, *(event.stack or [])[:stack_n])


def _write_events(events: EventList, path: str | Path) -> None:
    """Write slices only: events that are not from a trace have no other data."""
    from opscope.export.output_file import write_file

    slices = [
        {
            "name": event.trace_name,
            "ph": "X",
            "ts": event.time_range.start,
            "dur": event.time_range.elapsed_us(),
            "tid": event.thread,
            "pid": "CPU functions",
            "args": {},
        }
        for event in events
        if event.trace_name is not None
    ]
    write_file(path, [json.dumps(slices).encode()])
