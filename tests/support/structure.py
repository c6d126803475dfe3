"""What two recordings of one program have in common: everything but times and addresses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

FIELDS = (
    "name", "scope", "input_shapes", "concrete_inputs", "kwinputs", "is_async",
    "is_user_annotation", "structured_input_strides", "trace_name", "count", "is_remote",
    "is_legacy", "is_python_function", "node_id", "device_type", "device_time_total",
)  # fmt: skip
"""What is compared; of torch's events, what those of its version have."""


def structure(events: Iterable[Any]) -> dict[int, list[Any]]:
    """The trees of every thread from FunctionEvent objects; a tree is (fields, children).

    The thread of the first event is 0, others are numbered in order of what they did, because
    pools give work to whichever thread is free. Sequence numbers count from the lowest one.
    """
    events = list(events)
    first = min((e.sequence_nr for e in events if e.sequence_nr >= 0), default=0)
    threads: dict[int, list[Any]] = {}
    for event in sorted(events, key=lambda e: e.id):
        if event.cpu_parent is None:
            threads.setdefault(event.thread, []).append(_tree(event, first))
    main, *others = threads.values() if threads else ([],)
    return dict(enumerate([main, *sorted(others, key=repr)]))


def _tree(event: Any, first_sequence: int) -> Any:
    fields = {name: getattr(event, name) for name in FIELDS if hasattr(event, name)}
    fields["sequence"] = event.sequence_nr - first_sequence if event.sequence_nr >= 0 else -1
    fields["forward_thread"] = event.fwd_thread
    return fields, [_tree(child, first_sequence) for child in event.cpu_children]


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Where two structures differ, as lines that say so; empty if they are the same."""
    if sorted(ours) != sorted(theirs):
        return [f"threads {sorted(ours)} and {sorted(theirs)}"]
    return [line for thread in ours for line in _unlike(ours[thread], theirs[thread], path)]


def _unlike(ours: list[Any], theirs: list[Any], path: str) -> list[str]:
    our_names, their_names = ([fields["name"] for fields, _ in side] for side in (ours, theirs))
    if our_names != their_names:
        return [f"in {path or 'the program'}: {our_names} and {their_names}"]
    lines = []
    for (our_fields, our_children), (fields, children) in zip(ours, theirs, strict=True):
        here = f"{path}/{fields['name']}"
        lines += [
            f"{here} {name}: {our_fields[name]!r} and {value!r}"
            for name, value in fields.items()
            if our_fields[name] != value and repr(our_fields[name]) != repr(value)  # nan
        ]
        lines += _unlike(our_children, children, here)
    return lines
