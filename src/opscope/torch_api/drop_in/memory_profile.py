"""torch's ``MemoryProfile``, over memory accounts that are computed from columns.

torch's class walks the event tree with Python objects: minutes for a million events. This one
computes timeline and categories from arrays, with equal results. Other members, such as the data
flow graph, are torch's own, created on access.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from opscope.columns.trace_data import TraceData
from opscope.torch_api.drop_in.backend.result import ProfilerResult
from opscope.torch_api.event_tree.profiler_tree import torch_device

if TYPE_CHECKING:
    from opscope.analysis.memory.categories import MemoryAccounts
    from opscope.analysis.memory.data_flow import MemoryBlocks


def memory_profile(self: Any) -> Any:
    """Replaces ``_KinetoProfile._memory_profile``; ``self`` is the profiler."""
    required = ("record_shapes", "profile_memory", "with_stack")
    missing = [f"{name}=True" for name in required if not getattr(self, name)]
    if missing:
        raise ValueError(f"{', '.join(missing)} required for memory profiling.")
    if self.profiler is None or self.profiler.kineto_results is None:
        raise AssertionError("Profiler and kineto_results must be initialized for memory profiling")
    result = self.profiler.kineto_results
    if isinstance(result, ProfilerResult):
        return _profile_class()(result)
    from torch.profiler._memory_profiler import MemoryProfile

    return MemoryProfile(result)


@cache
def _profile_class() -> Any:
    """The class; created when torch can be imported."""
    from torch.profiler import _memory_profiler as torchs

    from opscope.analysis.memory.categories import memory_accounts

    class ColumnMemoryProfile(torchs.MemoryProfile):  # type: ignore[misc]
        """A MemoryProfile whose timeline and categories come from columns."""

        def __init__(self, result: ProfilerResult) -> None:
            self._result = result

        def __getattr__(self, name: str) -> Any:
            members: dict[str, Any] = {
                "_op_tree": lambda: torchs.OpTree(self._result),
                "_data_flow_graph": lambda: torchs.DataFlowGraph(self._op_tree),
                "_size_map": lambda: torchs.SizeMap(self._op_tree),
                "_accounts": lambda: memory_accounts(self._result.trace),
                "_keys": lambda: _tensor_keys(self._result.trace, self._accounts.blocks),
                "_categories": lambda: _category_dict(self._accounts, self._keys),
            }
            if name not in members:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            value = self.__dict__[name] = members[name]()
            return value

        @property
        def timeline(self) -> tuple[Any, ...]:
            """(time, action, (key, version), size) of every memory event, in order."""
            return _timeline(self._accounts, self._keys)

    return ColumnMemoryProfile


def _tensor_keys(trace: TraceData, blocks: MemoryBlocks) -> list[Any]:
    from torch.profiler._memory_profiler import TensorKey, _Storage

    address = np.zeros(len(blocks), dtype=np.uint64)
    for table, column, of_row in (
        ("parameters", "storage", blocks.of_parameter),
        ("allocations", "address", blocks.of_allocation),
        ("tensors", "storage", blocks.of_tensor),
    ):
        rows = np.flatnonzero(of_row >= 0)
        address[of_row[rows]] = trace.table(table)[column][rows]
    columns = (blocks.tensor_id, blocks.allocation_id, blocks.device_type, blocks.device_index)
    return [
        TensorKey(torch_device(kind, index), tensor, _Storage(pointer, allocation))
        for tensor, allocation, kind, index, pointer in zip(
            *(column.tolist() for column in columns), address.tolist(), strict=True
        )
    ]


def _category_dict(accounts: MemoryAccounts, keys: list[Any]) -> Any:
    from torch.profiler._memory_profiler import Category, CategoryDict

    categories, result = accounts.categories, CategoryDict()
    by_tensor = categories.of_tensor[accounts.blocks.tensor].tolist()
    labelled = categories.labelled.tolist()
    for block, (key, code) in enumerate(zip(keys, by_tensor, strict=True)):
        if code and labelled[block]:
            result.set_by_id(key, Category(code))
        if categories.of_block[block]:
            result.set_by_key(key, Category(int(categories.of_block[block])))
    block_of = np.repeat(np.arange(len(keys)), np.diff(categories.version_offsets))
    for number in np.flatnonzero(categories.own).tolist():
        block = int(block_of[number])
        version = number - int(categories.version_offsets[block])
        result.set_by_version(keys[block], version, Category(int(categories.own[number])))
    return result


def _timeline(accounts: MemoryAccounts, keys: list[Any]) -> tuple[Any, ...]:
    from torch.profiler._memory_profiler import Action, Key

    line = accounts.timeline
    actions = {action.value: action for action in Action}
    columns = (
        line.time_ns, line.action, line.block, line.version, line.size_bytes,
        line.device_type, line.device_index,
    )  # fmt: skip
    return tuple(
        (
            time,
            actions[action],
            (keys[block] if block >= 0 else Key(torch_device(kind, index)), v),
            size,
        )
        for time, action, block, v, size, kind, index in zip(
            *(column.tolist() for column in columns), strict=True
        )
    )
