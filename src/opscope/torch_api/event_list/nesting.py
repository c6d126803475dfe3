"""Nesting of events that are not from a trace: by thread and time, as in torch's event lists."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from opscope.columns.schema import RecordScope
from opscope.torch_api.event.parts import is_cpu

Event = Any  # a FunctionEvent


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
