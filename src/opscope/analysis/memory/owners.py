"""Owners of memory: the module, operator and Python lines of an event."""

from __future__ import annotations

import numpy as np

from opscope.analysis.sites import Sites
from opscope.columns.codes import ParameterRole
from opscope.columns.location import LineTexts, Location, line_texts
from opscope.columns.names import ENGINE_PREFIX
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Values
from opscope.timeline.listing import OwnListing, TorchListing
from opscope.timeline.module_attribution import attribute_to_modules
from opscope.timeline.stacks import Stacks
from opscope.timeline.tree.event_tree import event_tree, nearest_ancestor
from opscope.timeline.tree.frame_text import own_texts

OUTSIDE_MODULES = "outside modules"
OUTSIDE_OPERATORS = "outside operators"
NO_STACK: tuple[str, ...] = ()

_MOST_FRAMES = 64


def modules_of_events(trace: TraceData, events: Values) -> list[str]:
    """Path of each event's module, as in ``Net_0.Linear_1``; -1 is no event."""
    found = attribute_to_modules(trace)
    names = [found.text(path) for path in range(len(found.paths))]
    paths = np.where(events >= 0, np.append(found.path, -1)[events], -1)
    return [names[path] if path >= 0 else OUTSIDE_MODULES for path in paths.tolist()]


def modules_of_tensors(trace: TraceData) -> dict[int, str]:
    """Path of the module that holds each tensor, by tensor id.

    Modules hold parameters and their gradients; optimizer state belongs to its parameter's module.
    """
    table = trace.table("parameters")
    path_of_module = _module_paths(trace)
    owner: dict[int, str] = {}
    tensor, module = table["tensor_id"].tolist(), table["module"].tolist()
    for row in np.flatnonzero((table["module"] >= 0) & (table["tensor_id"] >= 0)).tolist():
        owner.setdefault(tensor[row], path_of_module.get(module[row], OUTSIDE_MODULES))
    held = np.flatnonzero((table["optimizer"] >= 0) & (table["tensor_id"] >= 0)).tolist()
    number = (table["optimizer"].astype(np.int64) << 32 | table["parameter"]).tolist()
    role = table["role"].tolist()
    parameter = {number[row]: tensor[row] for row in held if role[row] == ParameterRole.PARAMETER}
    for row in held:
        of_parameter = owner.get(parameter.get(number[row], -1))
        if of_parameter is not None:
            owner.setdefault(tensor[row], of_parameter)
    return owner


def _module_paths(trace: TraceData) -> dict[int, str]:
    """Path of every module at its first call."""
    found, calls = attribute_to_modules(trace), trace.table("python_calls")
    kind = np.append(trace.events["kind"], EventKind.OPERATOR)[calls["event"]]
    paths: dict[int, str] = {}
    for row in np.flatnonzero((calls["module"] >= 0) & (kind == EventKind.MODULE_CALL)).tolist():
        paths.setdefault(int(calls["module"][row]), found.name(int(calls["event"][row])))
    return paths


def operators_of_events(trace: TraceData, events: Values) -> list[str]:
    """Outermost operator around each event: the one that the program or autograd called.

    The allocating operator is nearly always ``aten::empty``, which explains nothing.
    """
    parent = event_tree(trace).parent
    is_operator = trace.events["kind"] == EventKind.OPERATOR
    outermost = is_operator & ~(is_operator[parent] & (parent >= 0))
    around = np.where(outermost, np.arange(len(parent)), nearest_ancestor(parent, outermost))
    label, texts = own_texts(trace)
    names = [text.removeprefix(ENGINE_PREFIX) for text in texts]
    holder = np.where(events >= 0, np.append(around, -1)[events], -1)
    return [names[label[e]] if e >= 0 else OUTSIDE_OPERATORS for e in holder.tolist()]


def stacks_of_events(trace: TraceData, events: Values) -> list[tuple[str, ...]]:
    """Python stack of each event, outermost frame first; empty for none.

    Events of the backward pass have the stack of their forward operator.
    """
    stacks = Stacks(OwnListing(trace), of_makers=True)
    if not stacks:
        return [NO_STACK] * len(events)
    innermost = np.where(events >= 0, np.append(stacks.innermost, -1)[events], -1)
    signature = stacks.signatures(_MOST_FRAMES, innermost)
    _, first, group = np.unique(signature, return_index=True, return_inverse=True)
    texts = [
        tuple(reversed(stacks.of(int(events[row]), _MOST_FRAMES)))
        if innermost[row] >= 0
        else NO_STACK
        for row in first.tolist()
    ]
    return [texts[number] for number in group.tolist()]


def lines_of_events(trace: TraceData, events: Values) -> list[str]:
    """Innermost line of the program around each event, as ``train.py:12: source text``.

    Events of the backward pass have the line of their forward operator; empty if unknown.
    """
    frame, line = (np.append(column, -1)[events] for column in Sites(TorchListing(trace)).at)
    texts = line_texts(trace)
    found = list(zip(frame.tolist(), line.tolist(), strict=True))
    names = {one: _line_text(Location.at(trace, *one), texts) for one in set(found)}
    return [names[one] for one in found]


def _line_text(place: Location, texts: LineTexts) -> str:
    text = place.source_text(texts)
    return f"{place}: {text}" if text else str(place)
