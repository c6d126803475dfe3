"""Details of tree nodes: one frozen dataclass per kind of event."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from opscope.columns.location import Location
from opscope.columns.schema import EventKind, RecordScope
from opscope.timeline.tree.arguments import Argument


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
