"""Nodes to growing columns, one call per node, in file order."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any

from opscope.trace.chrome.numbers import integer, nanoseconds
from opscope.trace.execution_trace.values import Columns, Values
from opscope.trace.schema import EventKind, RecordScope, Role, ScalarType

PROCESS = "[pytorch|profiler|execution_trace|process]"
THREAD = "[pytorch|profiler|execution_trace|thread]"
_ROOTS = (PROCESS, THREAD, PROCESS.replace("_trace", "_graph"), THREAD.replace("_trace", "_graph"))

COLLECTIVE_NAMES = {
    "collective_name": "Collective name",
    "dtype": "dtype",
    "in_msg_nelems": "In msg nelems",
    "out_msg_nelems": "Out msg nelems",
    "in_split_size": "In split size",
    "out_split_size": "Out split size",
    "global_rank_start": "Global rank start",
    "global_rank_stride": "Global rank stride",
    "pg_name": "Process Group Name",
    "pg_desc": "Process Group Description",
    "pg_size": "Group size",
    "is_asynchronized_op": "Is asynchronized op",
}
"""An execution trace's names of what a collective did, and torch.profiler's."""

_COLUMNS = {
    "id": "q", "parent": "q", "thread": "i", "name": "i", "overload": "i", "kind": "B",
    "scope": "B", "sequence_number": "q", "forward_thread": "i", "record_function_id": "q",
    "start_ns": "q", "duration_ns": "q", "forward_parent": "q",
}  # fmt: skip
_INT32 = {"low": -(1 << 31), "high": (1 << 31) - 1}


class NodeCollector:
    """Everything one file holds. Calling it takes one node; it never raises.

    Attributes:
        texts: name to row of the name table.
        schemas: operator schemas by full name, such as ``aten::add.Tensor``.
        nodes: columns, a row per node that is no root.
        threads: torch's thread numbers, to row of ``threads``.
        skipped: how many nodes were left out, by reason.
        timed: how many nodes have a time.
    """

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.schemas: dict[str, str] = {}
        self.nodes: Columns = {name: array(code) for name, code in _COLUMNS.items()}
        self.threads: dict[int, int] = {}
        self.values = Values(self.intern)
        self.skipped: Counter[str] = Counter()
        self.roots: set[int] = set()
        self.seen = 0
        self.timed = 0

    def intern(self, text: str) -> int:
        """The row of ``text`` in the name table."""
        return self.texts.setdefault(text, len(self.texts))

    def __call__(self, node: dict[str, Any]) -> None:
        """Take one node."""
        self.seen += 1
        name, number = node.get("name"), node.get("id")
        if not isinstance(name, str) or integer(number, -1) < 0:
            self.skipped["no name or id"] += 1
        elif name in _ROOTS:
            self.roots.add(integer(number))
        else:
            self._add(node, name, integer(number))

    def _add(self, node: dict[str, Any], name: str, number: int) -> None:
        row = len(self.nodes["id"])
        attributes = _attributes(node)
        scope = integer(attributes.get("scope"), 0, 0, 255)
        is_annotation = scope == RecordScope.USER_SCOPE
        tid = integer(attributes.get("tid"))
        start, duration = nanoseconds(node.get("ts")), nanoseconds(node.get("inclusive_dur"))
        self.timed += start is not None
        columns = self.nodes
        columns["id"].append(number)
        columns["parent"].append(integer(node.get("ctrl_deps", node.get("parent")), -1))
        columns["thread"].append(self.threads.setdefault(tid, len(self.threads)))
        columns["name"].append(self.intern(name))
        columns["overload"].append(self._overload(name, attributes.get("op_schema")))
        columns["kind"].append(EventKind.ANNOTATION if is_annotation else EventKind.OPERATOR)
        columns["scope"].append(scope)
        columns["sequence_number"].append(integer(attributes.get("seq_id"), -1))
        columns["forward_thread"].append(integer(attributes.get("fw_tid"), 0, **_INT32))
        columns["record_function_id"].append(integer(attributes.get("rf_id"), -1))
        columns["start_ns"].append(start or 0)
        columns["duration_ns"].append(max(duration or 0, 0))
        columns["forward_parent"].append(integer(attributes.get("fw_parent"), -1))
        self._add_values(row, node, attributes)

    def _add_values(self, row: int, node: dict[str, Any], attributes: dict[str, Any]) -> None:
        self.values.add(row, Role.INPUT, _side(node, "input"))
        self.values.add(row, Role.OUTPUT, _side(node, "output"))
        for key in ("kernel_backend", "kernel_file"):
            if attributes.get(key):
                self.values.add_keyword(row, key, ScalarType.STRING, str(attributes[key]))
        if "collective_name" in attributes:
            for key in COLLECTIVE_NAMES.keys() & attributes.keys():
                value = attributes[key]
                kind = ScalarType.INT if isinstance(value, int) else ScalarType.STRING
                self.values.add_keyword(row, COLLECTIVE_NAMES[key], kind, str(value))

    def _overload(self, name: str, schema: Any) -> int:
        """Row of the overload name in ``schema``, which is kept; -1 if there is none."""
        if not isinstance(schema, str) or not schema:
            return -1
        full_name = schema.partition("(")[0]
        self.schemas[full_name] = schema
        overload = full_name[len(name) + 1 :] if full_name.startswith(f"{name}.") else ""
        return self.intern(overload) if overload else -1


def _attributes(node: dict[str, Any]) -> dict[str, Any]:
    """By name. Before torch 2.3 they stood in the node itself."""
    listed = node.get("attrs")
    if not isinstance(listed, list):
        return node
    return {
        item["name"]: item.get("value")
        for item in listed
        if isinstance(item, dict) and isinstance(item.get("name"), str)
    }


def _side(node: dict[str, Any], side: str) -> Any:
    """``inputs`` or ``outputs``. Before torch 2.3 its lists stood in the node itself."""
    values = node.get(f"{side}s")
    if not isinstance(values, list):
        return values
    return {
        "values": values,
        "shapes": node.get(f"{side}_shapes"),
        "types": node.get(f"{side}_types"),
        "strides": node.get(f"{side}_strides"),
    }
