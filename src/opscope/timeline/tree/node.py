"""The event tree as objects, created on access.

    for node in Tree(trace).depth_first():
        print(node.name, node.duration_ns)

Memory events are nodes too, inside the span they happened in. A node is two words and holds no
copies: each access reads the columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from opscope.base.cached_property import cached_property
from opscope.columns.location import Location
from opscope.columns.schema import AllocationAction, EventKind, RecordScope
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Rows, Values
from opscope.timeline.tree.arguments import Argument, Arguments, RowsOfEvent
from opscope.timeline.tree.event_tree import Index, event_tree, group_by_parent
from opscope.timeline.tree.frame_text import event_texts


class NodeKind(Enum):
    """Kind of a tree node: the kinds of ``events``, and memory.

    Kinds of events that are not listed here become members when they are first requested by value.
    """

    OPERATOR = "operator"
    ANNOTATION = "annotation"
    PYTHON_CALL = "python_call"
    C_CALL = "c_call"
    MODULE_CALL = "module_call"
    OPTIMIZER_CALL = "optimizer_call"
    GC_PAUSE = "gc_pause"
    RUNTIME_CALL = "runtime_call"
    UNKNOWN = "unknown"
    ALLOCATION = "allocation"
    OUT_OF_MEMORY = "out_of_memory"

    @classmethod
    def _missing_(cls, value: object) -> NodeKind | None:
        if value not in {kind.name.lower() for kind in EventKind}:
            return None
        kind = object.__new__(cls)
        kind._name_, kind._value_ = str(value).upper(), str(value)
        cls._value2member_map_[value] = kind  # the same member next time
        return kind


@dataclass(frozen=True)
class OperatorDetail:
    """An operator, autograd node or annotation.

    Attributes:
        scope: where in torch it was emitted.
        overload: operator overload name, empty if not recorded.
        sequence_number: shared by a forward operator and its backward; -1 none.
        forward_thread: torch's id of the thread that ran the forward; 0 none.
        inputs: positional arguments; None for one that was not recorded.
        outputs: results.
    """

    scope: RecordScope
    overload: str
    sequence_number: int
    forward_thread: int
    inputs: list[Argument | None]
    keywords: dict[str, Argument]
    outputs: list[Argument | None]


@dataclass(frozen=True)
class PythonDetail:
    """A call of a Python or C function, an nn.Module or an optimizer.

    Attributes:
        frame: the function, at its first line; None if unknown.
        caller: location of the call; None if unknown.
        module: row in modules, -1 none.
        optimizer: row in optimizers, -1 none.
        class_name: class of the module or optimizer, otherwise empty.
        instance: name of the module, as in ``Linear_0``, otherwise empty.
        address: ``id()`` of the module or optimizer, otherwise 0.
    """

    frame: Location | None
    caller: Location | None
    module: int
    optimizer: int
    class_name: str
    instance: str
    address: int


@dataclass(frozen=True)
class MemoryDetail:
    """An allocation, a free (negative size) or a failed allocation; sizes in bytes."""

    address: int
    size_bytes: int
    total_allocated_bytes: int
    total_reserved_bytes: int
    device_type: int
    device_index: int
    allocation_id: int
    tensor_id: int


Detail = OperatorDetail | PythonDetail | MemoryDetail | None


_KINDS = {int(kind): NodeKind(kind.name.lower()) for kind in EventKind}
_MEMORY_NAMES = {False: "[memory]", True: "[OutOfMemory]"}


class Node:
    """One event of a tree; see :class:`Tree`.

    Attributes:
        row: row in events; memory events are numbered after them.
    """

    __slots__ = ("row", "tree")

    def __init__(self, tree: Tree, row: int) -> None:
        self.tree = tree
        self.row = row

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and (self.tree, self.row) == (other.tree, other.row)

    def __hash__(self) -> int:
        return hash((id(self.tree), self.row))

    def __repr__(self) -> str:
        return f"<Node {self.row} {self.kind.value} {self.name!r}>"

    @property
    def is_memory(self) -> bool:
        """Whether this is an allocation, a free or a failed allocation."""
        return self.row >= self.tree.event_count

    @property
    def kind(self) -> NodeKind:
        """Kind of event."""
        if self.is_memory:
            return NodeKind.OUT_OF_MEMORY if self._out_of_memory else NodeKind.ALLOCATION
        kind = int(self.tree.trace.events["kind"][self.row])
        return _KINDS.get(kind, NodeKind.UNKNOWN)

    @property
    def name(self) -> str:
        """Name as in torch: ``aten::mm``, ``file(line): function``, ``[memory]``."""
        if self.is_memory:
            return _MEMORY_NAMES[self._out_of_memory]
        rows, texts = self.tree.texts
        return texts[int(rows[self.row])]

    @property
    def parent(self) -> Node | None:
        """Span directly around it; None at top level."""
        row = int(self.tree.parent[self.row])
        return Node(self.tree, row) if row >= 0 else None

    @property
    def children(self) -> list[Node]:
        """Events directly inside, in order of start."""
        return [Node(self.tree, int(row)) for row in self.tree.children_of(self.row)]

    @property
    def start_ns(self) -> int:
        """Start, Unix nanoseconds."""
        return int(self.tree.start_ns[self.row])

    @property
    def duration_ns(self) -> int:
        """Duration; 0 for memory; up to the parent's end if it never ended."""
        return 0 if self.is_memory else int(self.tree.arrays.duration_ns[self.row])

    @property
    def end_ns(self) -> int:
        """End, Unix nanoseconds."""
        return self.start_ns + self.duration_ns

    @property
    def thread(self) -> int:
        """Row in threads."""
        table, row = self._table
        return int(table["thread"][row])

    @property
    def system_thread_id(self) -> int:
        """Kernel thread id; -1 if unknown."""
        threads = self.tree.trace.table("threads")["system_thread_id"]
        return int(threads[self.thread]) if self.thread < len(threads) else -1

    @property
    def correlation_id(self) -> int:
        """Id of this event in other views of the trace: row + 1; 0 for memory."""
        return 0 if self.is_memory else self.row + 1

    @property
    def unfinished(self) -> bool:
        """Whether its end is missing: it ends with its parent or the recording."""
        return not self.is_memory and bool(self.tree.trace.events["unfinished"][self.row])

    @property
    def detail(self) -> Detail:
        """Data beyond the span; None for a garbage collection."""
        if self.is_memory:
            return _memory_detail(*self._table)
        kind = self.kind
        if kind in (NodeKind.OPERATOR, NodeKind.ANNOTATION):
            return _operator_detail(self.tree, self.row)
        return None if kind == NodeKind.GC_PAUSE else _python_detail(self.tree, self.row)

    @property
    def _table(self) -> tuple[Table, int]:
        if self.is_memory:
            return self.tree.trace.table("allocations"), self.row - self.tree.event_count
        return self.tree.trace.events, self.row

    @property
    def _out_of_memory(self) -> bool:
        table, row = self._table
        return bool(table["action"][row] == AllocationAction.OUT_OF_MEMORY)


class Tree:
    """All events of a trace and their nesting.

    Attributes:
        trace: source of all data.
        event_count: rows below this are events, the rest allocations.
    """

    def __init__(self, trace: TraceData) -> None:
        self.trace = trace
        self.arrays = event_tree(trace)
        self.event_count = len(trace.events)
        self.arguments = Arguments(trace)
        self.python_calls = RowsOfEvent(trace.table("python_calls"))

    def __repr__(self) -> str:
        return f"<Tree of {self.event_count:,} events>"

    @cached_property
    def parent(self) -> Index:
        """Parents of events and memory events, shape (events + allocations,)."""
        return np.concatenate([self.arrays.parent, self.trace.table("allocations")["event"]])

    @cached_property
    def start_ns(self) -> Values:
        """Times of events and memory events, shape (events + allocations,)."""
        return np.concatenate([self.arrays.start_ns, self.trace.table("allocations")["time_ns"]])

    @cached_property
    def texts(self) -> tuple[Rows, list[str]]:
        """Names of events; see ``frame_text.event_texts``."""
        return event_texts(self.trace)

    @cached_property
    def _children(self) -> tuple[Values, Values]:
        if len(self.parent) == self.event_count:
            return group_by_parent(self.parent)
        by_time = np.argsort(self.start_ns, kind="stable")
        _, rows = group_by_parent(self.parent[by_time])
        counts = np.bincount(self.parent + 1, minlength=len(self.parent) + 1)
        return np.cumsum(counts) - counts[0], by_time[rows]

    def children_of(self, row: int) -> Values:
        """Rows directly inside ``row``, in order of start."""
        offsets, rows = self._children
        return rows[offsets[row] : offsets[row + 1]]

    def node(self, row: int) -> Node:
        """Node of one row; IndexError for an invalid row."""
        if not 0 <= row < len(self.parent):
            raise IndexError(f"row {row}, but the tree has {len(self.parent)} nodes")
        return Node(self, row)

    @property
    def roots(self) -> list[Node]:
        """Nodes at top level, in order of start over all threads."""
        return [Node(self, row) for row in self._root_rows()]

    def depth_first(self) -> Iterator[Node]:
        """Every node, parents before their children."""
        pending = self._root_rows()[::-1]
        while pending:
            row = pending.pop()
            yield Node(self, row)
            pending.extend(self.children_of(row)[::-1].tolist())

    def __len__(self) -> int:
        return len(self.parent)

    def _root_rows(self) -> list[int]:
        rows = np.flatnonzero(self.parent < 0)
        ordered: list[int] = rows[np.argsort(self.start_ns[rows], kind="stable")].tolist()
        return ordered


def _operator_detail(tree: Tree, event: int) -> OperatorDetail:
    events, arguments = tree.trace.events, tree.arguments
    return OperatorDetail(
        scope=RecordScope(int(events["scope"][event])),
        overload=tree.trace.names[events["overload"][event]],
        sequence_number=int(events["sequence_number"][event]),
        forward_thread=int(events["forward_thread"][event]),
        inputs=arguments.inputs(event),
        keywords=arguments.keywords(event),
        outputs=arguments.outputs(event),
    )


def _memory_detail(table: Table, row: int) -> MemoryDetail:
    fields = MemoryDetail.__dataclass_fields__
    return MemoryDetail(**{name: int(table[name][row]) for name in fields})


def _python_detail(tree: Tree, event: int) -> PythonDetail:
    names, calls = tree.trace.names, tree.python_calls.table
    rows = tree.python_calls.rows(event)
    if not rows.size:
        return PythonDetail(None, None, -1, -1, "", "", 0)
    row = int(rows[0])
    module, optimizer = int(calls["module"][row]), int(calls["optimizer"][row])
    class_name, instance, address = "", "", 0
    for table, owner in (("modules", module), ("optimizers", optimizer)):
        if owner >= 0:
            class_name = names[tree.trace.table(table)["class_name"][owner]]
            address = int(tree.trace.table(table)["address"][owner])
    if module >= 0:
        instance = names[tree.trace.table("modules")["name"][module]]
    frame, by = int(calls["frame"][row]), int(calls["caller"][row])
    line = int(calls["caller_line"][row])
    function = Location.at(tree.trace, frame) if frame >= 0 else None
    caller = Location.at(tree.trace, by, line) if by >= 0 else None
    return PythonDetail(function, caller, module, optimizer, class_name, instance, address)
