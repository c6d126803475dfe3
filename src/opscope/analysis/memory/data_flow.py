"""The data flow graph: which blocks of memory operators read, change, make and free.

A block is one allocation as one tensor uses it; every change of its contents makes a new version.
Nodes are the outermost operators that have a schema or belong to the backward pass, and the
allocations and frees outside of those. What happens inside a node counts for the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

NONE = -1


@dataclass(frozen=True)
class MemoryBlocks:
    """Every block that an operator, a module or an optimizer was seen to use, in order of ids.

    Attributes:
        tensor_id: of the tensor it belongs to, shape (blocks,).
        allocation_id: of its allocation.
        device_type: c10::DeviceType.
        device_index: -1 for the CPU.
        size_bytes: allocated or, if the allocation was not recorded, as much as its tensors span.
        tensor: the tensor id without gaps: blocks of one tensor share it.
        of_tensor: block of every row of ``tensors``, -1 for what is no input of an operator.
        of_allocation: block of every row of ``allocations``, -1 for none.
        of_parameter: block of every row of ``parameters``, -1 for none.
    """

    tensor_id: Values
    allocation_id: Values
    device_type: npt.NDArray[np.int8]
    device_index: npt.NDArray[np.int8]
    size_bytes: Values
    tensor: Rows
    of_tensor: Rows
    of_allocation: Rows
    of_parameter: Rows

    def __len__(self) -> int:
        return len(self.tensor_id)


@dataclass(frozen=True)
class FlowNode:
    """One node of the graph; versions are those of the node's inputs and outputs.

    Attributes:
        event: row in events; -1 for an allocation.
        allocation: row in allocations; -1 for an event.
        inputs: (block, version) of what it used or freed.
        outputs: (block, version) of what it made or changed.
        intermediates: blocks it made and freed.
        freed: blocks it freed.
    """

    event: int
    allocation: int
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]
    intermediates: tuple[int, ...]
    freed: tuple[int, ...]


@dataclass(frozen=True)
class DataFlow:
    """The graph as arrays; node i has edges ``edge_offsets[i]`` to ``edge_offsets[i + 1]``.

    Attributes:
        node_event: row in events, -1 for an allocation; nodes are in order of start.
        node_allocation: row in allocations, -1 for an event.
        in_backward: whether the node is part of the backward pass.
        edge_offsets: shape (nodes + 1,).
        block: of every edge, ascending within a node.
        input_version: version before the node; -1 if the node allocates the block.
        mutated: whether the node changes it.
        freed: whether the node frees it.
        version_offsets: version v of block b is number ``version_offsets[b] + v`` among all
            versions, shape (blocks + 1,).
    """

    node_event: Rows
    node_allocation: Rows
    in_backward: Flags
    edge_offsets: Values
    block: Rows
    input_version: Rows
    mutated: Flags
    freed: Flags
    version_offsets: Values

    def __len__(self) -> int:
        return len(self.node_event)

    @property
    def is_output(self) -> Flags:
        """Edges that leave a version behind. Shape (edges,)."""
        made: Flags = (self.input_version < 0) | self.mutated
        return made & ~self.freed

    def node(self, number: int) -> FlowNode:
        """One node as an object.

        Raises:
            IndexError: there is no such node.
        """
        if not 0 <= number < len(self):
            raise IndexError(f"node {number}, but the graph has {len(self)}")
        edges = slice(self.edge_offsets[number], self.edge_offsets[number + 1])
        blocks, before = self.block[edges].tolist(), self.input_version[edges].tolist()
        freed, leaves = self.freed[edges].tolist(), self.is_output[edges].tolist()
        each = list(zip(blocks, before, freed, leaves, strict=True))
        return FlowNode(
            event=int(self.node_event[number]),
            allocation=int(self.node_allocation[number]),
            inputs=tuple((b, v) for b, v, _, _ in each if v >= 0),
            outputs=tuple((b, v + 1) for b, v, _, leaves in each if leaves),
            intermediates=tuple(b for b, v, freed, _ in each if v < 0 and freed),
            freed=tuple(b for b, _, freed, _ in each if freed),
        )


def data_flow_of(columns: dict[str, Any], events: int) -> DataFlow:
    """The graph from what ``_native.memory_accounts`` returns; ``events`` is how many there are."""
    node = columns["node"]
    return DataFlow(
        node_event=np.where(node < events, node, NONE).astype(np.int32),
        node_allocation=np.where(node >= events, node - events, NONE).astype(np.int32),
        in_backward=columns["in_backward"].astype(bool),
        edge_offsets=columns["edge_offsets"],
        block=columns["key"],
        input_version=columns["input_version"],
        mutated=columns["mutated"].astype(bool),
        freed=columns["deleted"].astype(bool),
        version_offsets=columns["version_offsets"],
    )
