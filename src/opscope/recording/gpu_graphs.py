"""CUDA graphs: what the program was doing when each node was captured.

A replay launches hundreds of kernels with one call and no operator around any of them. All there is
to know about a kernel was known when its node was captured, so that is recorded once per node, and
kept by the process: a graph captured in one recording is replayed in many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.trace.names import Names
from opscope.trace.schema import EventKind, Role
from opscope.trace.table import ListColumn

_FIELDS = ("operator", "module", "shapes", "stack")
_captured: dict[int, tuple[str, ...]] = {}
"""Texts of ``_FIELDS`` by node, of every capture that a recording has seen."""

_KEPT = 1_000_000


def graph_nodes(
    decoded: dict[str, Any], nodes: dict[str, Any], at: npt.NDArray[np.int32]
) -> tuple[dict[str, Any], list[str]]:
    """The ``gpu_graph_nodes`` table.

    Args:
        decoded: the recording's tables, with their final numbering of events.
        nodes: ``node`` and ``time_ns`` of its capture, 0 if that was in an earlier recording.
        at: the innermost event at the capture, -1 if none.

    Returns:
        The table, and texts to be added to the names; the table counts them as added already.
    """
    first_name = len(decoded["name_offsets"]) - 1
    event = np.where(nodes["time_ns"] > 0, at, -1).astype(np.int32)
    _remember(decoded, nodes["node"], event)
    rows: dict[str, int] = {}
    columns: dict[str, list[int]] = {name: [] for name in _FIELDS}
    for node in nodes["node"].tolist():
        for field, text in zip(_FIELDS, _captured.get(node, ("",) * len(_FIELDS)), strict=True):
            row = first_name + rows.setdefault(text, len(rows)) if text else -1
            columns[field].append(row)
    table: dict[str, Any] = {"node": nodes["node"], "event": event}
    table |= {name: np.array(rows_, dtype=np.int32) for name, rows_ in columns.items()}
    return table, list(rows)


def _remember(
    decoded: dict[str, Any], node: npt.NDArray[np.int64], event: npt.NDArray[np.int32]
) -> None:
    captured = np.flatnonzero(event >= 0)
    if not len(captured):
        return
    describe = _Describer(decoded)
    texts: dict[int, tuple[str, ...]] = {}
    for row in captured.tolist():
        at = int(event[row])
        if at not in texts:
            texts[at] = describe(at)
        if len(_captured) < _KEPT:
            _captured[int(node[row])] = texts[at]


class _Describer:
    """An event and what is around it, as the four texts."""

    def __init__(self, decoded: dict[str, Any]) -> None:
        self._names = Names(decoded["name_offsets"], decoded["name_text"])
        self._events = decoded["events"]
        tensors = decoded["tensors"]
        is_input = (tensors["role"] == Role.INPUT) if len(tensors["event"]) else np.zeros(0, bool)
        self._rows = np.flatnonzero(is_input)
        self._of_event = tensors["event"][self._rows]
        sizes = tensors["sizes"]
        self._sizes = ListColumn(*sizes) if isinstance(sizes, tuple) else sizes

    def __call__(self, event: int) -> tuple[str, ...]:
        events, names = self._events, self._names
        operator, operator_row, annotation = "", -1, ""
        modules: list[str] = []
        stack: list[str] = []
        row = event
        while row >= 0:
            kind, name = int(events["kind"][row]), names[int(events["name"][row])]
            if kind == EventKind.OPERATOR and operator_row < 0:
                operator, operator_row = name, row
            elif kind == EventKind.ANNOTATION and not annotation:
                annotation = name
            elif kind == EventKind.MODULE_CALL:
                modules.append(name.removeprefix("nn.Module: "))
            elif kind == EventKind.PYTHON_CALL:
                stack.append(name)
            row = int(events["parent"][row])
        shapes = self._shapes(operator_row)
        return operator or annotation, "/".join(reversed(modules)), shapes, "\n".join(stack)

    def _shapes(self, event: int) -> str:
        first, last = np.searchsorted(self._of_event, [event, event + 1])
        rows = self._rows[first:last].tolist()
        return str([self._sizes[row] for row in rows]) if rows else ""
