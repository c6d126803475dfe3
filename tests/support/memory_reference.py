"""torch's own memory profiler as plain values, to compare with.

Blocks are (tensor id, allocation id, device); ``None`` stands for memory of no tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.analysis.memory.categories import MemoryAccounts
from opscope.columns.labels import device_name

Block = tuple[int, int, str]
Version = tuple[Block, int]


@dataclass(frozen=True)
class Node:
    """A node of the data flow graph."""

    inputs: list[Version]
    outputs: list[Version]
    intermediates: list[Block]


@dataclass(frozen=True)
class Reference:
    """What a memory profiler says.

    Attributes:
        nodes: the data flow graph.
        categories: number of the category of every version it knows; 0 unknown.
        timeline: (time, action, block, version, size) in order.
    """

    nodes: list[Node]
    categories: dict[Version, int]
    timeline: list[tuple[int, int, Block | None, int, int]]


def torch_reference(profile: Any, with_timeline: bool = True) -> Reference:
    """From a ``torch.profiler._memory_profiler.MemoryProfile``."""
    nodes = [
        Node(
            inputs=[(_block(key), version) for key, (_, version) in node.inputs.items()],
            outputs=[(_block(key), version) for key, version in node.outputs.items()],
            intermediates=[_block(key) for key in node.intermediates],
        )
        for node in profile._data_flow_graph.flow_nodes
    ]
    categories = {
        (_block(key), version): 0 if category is None else category.value
        for (key, version), category in profile._category_snapshot().items()
    }
    timeline = [
        (time, action.value, _block(key), version, size)
        for time, action, (key, version), size in (profile.timeline if with_timeline else ())
    ]
    return Reference(nodes, categories, timeline)


def our_reference(accounts: MemoryAccounts) -> Reference:
    """The same of opscope's accounts."""
    flow, line = accounts.flow, accounts.timeline
    names = _names(accounts)
    nodes = [Node(inputs=[], outputs=[], intermediates=[]) for _ in range(len(flow))]
    edges = zip(
        np.repeat(np.arange(len(flow)), np.diff(flow.edge_offsets)).tolist(), flow.block.tolist(),
        flow.input_version.tolist(), flow.freed.tolist(), flow.is_output.tolist(), strict=True,
    )  # fmt: skip
    for number, block, version, freed, leaves in edges:
        node, name = nodes[number], names[block]
        if version >= 0:
            node.inputs.append((name, version))
        elif freed:
            node.intermediates.append(name)
        if leaves:
            node.outputs.append((name, version + 1))
    versions = flow.version_offsets[1:] - flow.version_offsets[:-1]
    categories = {
        (names[block], version): int(accounts.categories.of(block, version))
        for block in range(len(names))
        for version in range(int(versions[block]))
    }
    timeline = [
        (time, action, names[block] if block >= 0 else None, version, size)
        for time, action, block, version, size in zip(
            line.time_ns.tolist(), line.action.tolist(), line.block.tolist(),
            line.version.tolist(), line.size_bytes.tolist(), strict=True,
        )
    ]  # fmt: skip
    return Reference(nodes, categories, timeline)


def empty_blocks(accounts: MemoryAccounts) -> set[Block]:
    """Those of no bytes; torch says nothing of one that no node has."""
    sizes = accounts.blocks.size_bytes.tolist()
    return {name for name, size in zip(_names(accounts), sizes, strict=True) if size == 0}


def _names(accounts: MemoryAccounts) -> list[Any]:
    blocks = accounts.blocks
    return [
        (tensor, allocation, device_name(kind, index))
        for tensor, allocation, kind, index in zip(
            blocks.tensor_id.tolist(), blocks.allocation_id.tolist(),
            blocks.device_type.tolist(), blocks.device_index.tolist(), strict=True,
        )
    ]  # fmt: skip


def _block(key: Any) -> Any:
    if not hasattr(key, "storage"):
        return None
    return key.id, key.storage.allocation_id, str(key.device)
