"""What names say about events: scope, overload, step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.schema import EventKind, RecordScope
from opscope.storage.chrome.collected import CollectedEvents

Columns = dict[str, Any]

_STEP = re.compile(r"ProfilerStep#(\d{1,9})$")
_OVERLOADED = re.compile(r"(\w+::\w+)\.(\w+)$")
_EVALUATE = "autograd::engine::evaluate_function: "


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
    """Nodes of the backward graph: what the engine evaluates, or what names a forward's thread.

    The engine's own span around a node is called like it, and is no node.
    """
    evaluated = np.full(len(texts) + 1, -1, dtype=np.int64)  # one more, for events without parent
    for text, row in texts.items():
        if text.startswith(_EVALUATE):
            evaluated[row] = texts.get(text[len(_EVALUATE) :], len(texts))
    name = events["name"]
    parent_name = np.where(events["parent"] >= 0, name[events["parent"]], len(texts))
    is_engine = evaluated[name] >= 0
    nodes: npt.NDArray[np.bool_] = (evaluated[parent_name] == name) | (events["forward_thread"] > 0)
    return nodes & ~is_engine


def _steps(events: Columns, texts: list[str]) -> npt.NDArray[np.int32]:
    """N of the ``ProfilerStep#N`` each event started in."""
    numbers = np.full(len(texts), -1, dtype=np.int32)
    for row, text in enumerate(texts):
        match = _STEP.match(text)
        if match:
            numbers[row] = int(match[1])
    number = numbers[events["name"]]
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
    """Move ``Tensor`` of ``aten::add.Tensor`` to its own column; returns that column."""
    base_name = np.arange(len(collector.texts), dtype=np.int32)
    overload = np.full(len(base_name), -1, dtype=np.int32)
    for row, text in enumerate(list(collector.texts)):
        match = _OVERLOADED.match(text)
        if match:
            base_name[row], overload[row] = map(collector.intern, match.groups())
    column = np.where(is_operator, overload[events["name"]], -1)
    events["name"] = np.where(is_operator, base_name[events["name"]], events["name"])
    return column.astype(np.int32)
