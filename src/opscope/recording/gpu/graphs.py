"""CUDA graphs: the program's operator at the capture of each node.

A replay launches hundreds of kernels with one call and no operator around any of them. Everything
about a kernel is known when its node is captured, so it is recorded once per node and kept by the
process: a graph captured in one recording is replayed in many.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.columns.names import Names
from opscope.columns.schema import TABLES, EventKind, Role
from opscope.columns.table import Table
from opscope.recording.decoded import Decoded

_FIELDS = ("operator", "module", "shapes", "stack")
_captured: dict[int, tuple[str, ...]] = {}
"""Texts of ``_FIELDS`` by node, for every capture in any recording."""

_KEPT = 1_000_000


def graph_nodes(
    decoded: Decoded, node: npt.NDArray[np.int64], event: npt.NDArray[np.int32]
) -> tuple[Table, Names]:
    """The ``gpu_graph_nodes`` table, and the names with its additional texts.

    Args:
        decoded: the recording's tables, with their final numbering of events.
        node: CUPTI's numbers of the nodes. Shape (nodes,).
        event: innermost event at each capture; -1 if an earlier recording captured it. Shape
            (nodes,).
    """
    first_name = len(decoded.names)
    _remember(decoded, node, event)
    rows: dict[str, int] = {}
    columns: dict[str, list[int]] = {name: [] for name in _FIELDS}
    for number in node.tolist():
        for field, text in zip(_FIELDS, _captured.get(number, ("",) * len(_FIELDS)), strict=True):
            row = first_name + rows.setdefault(text, len(rows)) if text else -1
            columns[field].append(row)
    table = Table(TABLES["gpu_graph_nodes"], {"node": node, "event": event, **columns})
    return table, decoded.names.followed_by(Names.from_strings(rows))


def _remember(decoded: Decoded, node: npt.NDArray[np.int64], event: npt.NDArray[np.int32]) -> None:
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
    """Describes an event and its context by the four texts of ``_FIELDS``."""

    def __init__(self, decoded: Decoded) -> None:
        self._names = decoded.names
        self._events = decoded.events
        tensors = decoded.tables["tensors"]
        self._rows = np.flatnonzero(tensors["role"] == Role.INPUT)
        self._of_event = tensors["event"][self._rows]
        self._sizes = tensors.lists("sizes")

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
