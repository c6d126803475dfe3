"""Attributes from event names: scope, overload, step; Python functions, modules, collections."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.names import ENGINE_PREFIX, step_number
from opscope.columns.schema import EventKind, RecordScope
from opscope.storage.chrome.connections import row_with
from opscope.storage.chrome.native_columns import CollectedEvents

Columns = dict[str, Any]

_OVERLOADED = re.compile(r"(\w+::\w+)\.(\w+)$")


def add_meaning(events: Columns, collector: CollectedEvents) -> None:
    """Columns that follow from names: scope, overload, step."""
    texts = list(collector.texts)
    is_operator = events["kind"] == EventKind.OPERATOR
    scope = np.zeros(len(is_operator), dtype=np.uint8)
    scope[is_operator & _is_backward_node(events, collector.texts)] = RecordScope.BACKWARD_FUNCTION
    scope[events["kind"] == EventKind.ANNOTATION] = RecordScope.USER_SCOPE
    events["scope"] = scope
    events["step"] = _steps(events, texts)
    events["overload"] = _split_overloads(events, is_operator, collector)


def _is_backward_node(events: Columns, texts: Mapping[str, int]) -> npt.NDArray[np.bool_]:
    """Which events are nodes of the backward graph.

    The engine evaluates a node, or the node has a forward thread. The engine's span around a node
    has the same name, but is not a node.
    """
    evaluated = np.full(len(texts) + 1, -1, dtype=np.int64)  # one more, for events without parent
    for text, row in texts.items():
        if text.startswith(ENGINE_PREFIX):
            evaluated[row] = texts.get(text[len(ENGINE_PREFIX) :], len(texts))
    name = events["name"]
    parent_name = np.where(events["parent"] >= 0, name[events["parent"]], len(texts))
    is_engine = evaluated[name] >= 0
    nodes: npt.NDArray[np.bool_] = (evaluated[parent_name] == name) | (events["forward_thread"] > 0)
    return nodes & ~is_engine


def _steps(events: Columns, texts: list[str]) -> npt.NDArray[np.int32]:
    numbers = [-1 if (found := step_number(text)) is None else found for text in texts]
    number = np.array(numbers, dtype=np.int32)[events["name"]]
    rows = np.flatnonzero(number >= 0)
    step = np.full(len(number), -1, dtype=np.int32)
    if len(rows):
        last = np.searchsorted(events["start_ns"][rows], events["start_ns"], side="right") - 1
        current = rows[last]
        inside = (last >= 0) & (events["start_ns"] < events["end_ns"][current])
        step[inside] = number[current[inside]]
        step[rows] = number[rows]
    return step


def _split_overloads(
    events: Columns, is_operator: npt.NDArray[np.bool_], collector: CollectedEvents
) -> npt.NDArray[np.int32]:
    base_name = np.arange(len(collector.texts), dtype=np.int32)
    overload = np.full(len(base_name), -1, dtype=np.int32)
    for row, text in enumerate(list(collector.texts)):
        match = _OVERLOADED.match(text)
        if match:
            base_name[row], overload[row] = map(collector.intern, match.groups())
    column = np.where(is_operator, overload[events["name"]], -1)
    events["name"] = np.where(is_operator, base_name[events["name"]], events["name"])
    return column.astype(np.int32)


_FUNCTION = re.compile(r"(?P<file>.*)\((?P<line>\d{1,9})\): (?P<function>.*)$", re.DOTALL)
_MODULE = re.compile(r"nn\.Module: (?P<name>.*)$", re.DOTALL)
_GC_PAUSE = re.compile(r"Python GC$|gc: generation \d$")
"""A garbage collection: torch's and opscope's name."""
_CLASS = re.compile(r"(?P<class_name>.*)_\d+$", re.DOTALL)


class _Functions:
    def __init__(self, intern: Callable[[str], int]) -> None:
        self._intern = intern
        self.frames: list[tuple[int, int, int]] = []
        self.modules: list[tuple[int, int]] = []

    def describe(self, text: str) -> tuple[int, int, int]:
        """Kind, row in ``frames`` and row in ``modules`` of a span of this name."""
        module, function = _MODULE.match(text), _FUNCTION.match(text)
        if module:
            name = module["name"]
            match = _CLASS.match(name)
            class_name = match["class_name"] if match else name
            self.modules.append((self._intern(class_name), self._intern(name)))
            return EventKind.MODULE_CALL, -1, len(self.modules) - 1
        if _GC_PAUSE.match(text):
            return EventKind.GC_PAUSE, -1, -1
        if function:
            file, name = self._intern(function["file"]), self._intern(function["function"])
            self.frames.append((file, name, int(function["line"])))
            return EventKind.PYTHON_CALL, len(self.frames) - 1, -1
        self.frames.append((-1, self._intern(text), -1))
        return EventKind.C_CALL, len(self.frames) - 1, -1


def python_tables(
    events: dict[str, Any], texts: Iterable[str], intern: Callable[[str], int]
) -> dict[str, dict[str, Any]]:
    """``python_calls``, ``frames`` and ``modules``; also refines ``events["kind"]`` in place."""
    rows = np.flatnonzero(events["kind"] == EventKind.PYTHON_CALL)
    if not len(rows):
        return {}
    names, name_of_row = np.unique(events["name"][rows], return_inverse=True)
    all_texts = list(texts)
    functions = _Functions(intern)
    described = np.array([functions.describe(all_texts[name]) for name in names], dtype=np.int32)
    kind, frame, module = described[name_of_row].T
    events["kind"][rows] = kind
    files, names_of, lines = zip(*functions.frames, strict=True) if functions.frames else ([],) * 3
    classes, instances = zip(*functions.modules, strict=True) if functions.modules else ([],) * 2
    is_call = kind != EventKind.GC_PAUSE
    calls = {
        "event": rows,
        "frame": frame,
        "caller": _callers(events, rows, frame),
        "module": module,
    }
    return {
        "python_calls": {name: column[is_call] for name, column in calls.items()},
        "frames": {"file": list(files), "function": list(names_of), "line": list(lines)},
        "modules": {"class_name": list(classes), "name": list(instances)},
    }


def _callers(
    events: dict[str, Any], rows: npt.NDArray[np.int64], frame: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """The frame of each call's caller; -1 if unknown.

    Kineto writes the caller of each Python span. Without it, and for modules, which are not
    functions, the caller is the nearest function around the call.
    """
    frame_of = np.full(len(events["parent"]), -1, dtype=np.int32)
    frame_of[rows] = frame
    is_python = np.zeros(len(frame_of), dtype=np.bool_)
    is_python[rows] = True
    called_by = events["parent"].astype(np.int64)
    named = row_with(events["python_id"], is_python, events["python_parent_id"])
    is_earlier = (named >= 0) & (named < np.arange(len(named)))  # or the loop may not end
    called_by[is_earlier] = named[is_earlier]
    caller = called_by[rows]
    searching = np.flatnonzero(caller >= 0)
    while len(searching):
        searching = searching[frame_of[caller[searching]] < 0]
        caller[searching] = called_by[caller[searching]]
        searching = searching[caller[searching] >= 0]
    return np.where(caller >= 0, frame_of[caller], -1).astype(np.int32)
