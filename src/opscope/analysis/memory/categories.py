"""Memory categories: parameters, optimizer state, inputs, temporaries, activations, gradients.

    accounts = memory_accounts(trace)
    accounts.categories.of_version
    accounts.timeline

The rules are those of torch's memory profiler. Gradients are stored by AccumulateGrad, or held as
such by modules and optimizers. Parameters are held by these or, if none was recorded, updated from
gradients in the data flow. Inputs contribute to a gradient without depending on one. Activations
are computed from inputs in the forward pass. Other memory that the backward pass makes is
autograd's own. Memory that one operator makes and frees is temporary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import opscope._native as _native
from opscope.analysis.memory.data_flow import (
    Action,
    Category,
    MemoryBlocks,
    MemoryTimeline,
)
from opscope.columns.codes import ArgumentAccess, ParameterRole
from opscope.columns.dtypes import ITEM_SIZES
from opscope.columns.overloads import (
    TENSOR,
    TENSOR_LIST,
    Overload,
    SchemaParameter,
    kept,
    overloads_of,
)
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData, derive
from opscope.errors import UsageError
from opscope.timeline.arrays import Flags, Values

Access = ArgumentAccess


@dataclass(frozen=True)
class Signature:
    """Result of matching a call with an operator's schemas."""

    overloads: tuple[str, ...]  # names of the overloads that fit; empty if none does
    access: tuple[Access, ...]  # access to every argument


def match_signature(
    name: str, kinds: str, kept: Mapping[str, tuple[Overload, ...]] | None = None
) -> Signature:
    """Overloads and access of operator ``name`` called with arguments of ``kinds``.

    Args:
        kinds: a letter per argument: T tensor, L list of tensors, b, i, f, c numbers, N any other.
        kept: schemas in the recording; None or empty to query torch.
    """
    known = kept.get(name, ()) if kept else overloads_of(name)
    fitting = [overload for overload in known if overload.fits(kinds)]
    for position in (p for p, kind in enumerate(kinds) if kind == TENSOR_LIST):
        # Between Tensor?[] and Tensor[], as for aten::index, the dispatcher chooses the former; the
        # latter is for TorchScript.
        optional = [o for o in fitting if o.parameters[position].is_optional_tensors]
        fitting = optional or fitting
    access = []
    for position, kind in enumerate(kinds):
        parameters = [overload.parameters[position] for overload in fitting]
        access.append(_access(kind, parameters))
    return Signature(tuple(overload.name for overload in fitting), tuple(access))


def takes_optional_tensors(name: str, position: int) -> bool:
    """Whether that argument of ``name`` is a list of optional tensors in some overload.

    torch's profiler does not record such lists.
    """
    return any(
        position < len(overload.parameters) and overload.parameters[position].is_optional_tensors
        for overload in overloads_of(name)
    )


def _access(kind: str, parameters: list[SchemaParameter]) -> Access:
    if kind not in (TENSOR, TENSOR_LIST):
        return Access.NO_TENSOR
    if not parameters:
        return Access.UNCLEAR
    if kind == TENSOR_LIST and parameters[0].is_optional_tensors:
        return Access.NO_TENSOR
    return Access.WRITES if any(parameter.writes for parameter in parameters) else Access.READS


Codes = npt.NDArray[np.uint8]
Columns = dict[str, npt.NDArray[Any]]

_IDENTITY = ("tensor_id", "allocation_id", "device_type", "device_index")
_SHAPES = ("dtype", "layout", "sizes", "strides")
_COLUMNS = {
    "events": ("parent", "name", "start_ns", "kind", "scope"),
    "tensors": ("event", "element", "argument", "role", *_IDENTITY, *_SHAPES),
    "scalars": ("event", "argument", "role", "type"),
    "allocations": ("event", "time_ns", "size_bytes", "address", "action", *_IDENTITY),
    "parameters": ("role", *_IDENTITY, *_SHAPES),
}


@dataclass(frozen=True)
class Categories:
    """Categories of blocks, by version.

    A tensor's category applies to all its blocks, a block's to all its versions; versions have
    their own only if neither is known.
    """

    of_tensor: Codes  # by ``MemoryBlocks.tensor``; 0 if versions differ
    of_block: Codes  # shape (blocks,); 0 if versions differ
    own: Codes  # own category of every version, shape (versions,)
    of_version: Codes  # resulting category of every version, shape (versions,)
    labelled: Flags  # blocks from which a tensor got its category, shape (blocks,)
    version_offsets: Values  # number of version 0 of each block, shape (blocks + 1,)


@dataclass(frozen=True)
class MemoryAccounts:
    """Everything known of a recording's memory."""

    blocks: MemoryBlocks
    categories: Categories
    timeline: MemoryTimeline


def memory_accounts(trace: TraceData) -> MemoryAccounts:
    """Compute blocks, data flow, categories and timeline; cached for each trace.

    The trace needs shapes and memory; stacks or modules make parameters known.

    Raises:
        UsageError: the trace does not identify tensors.
        MissingDependencyError: torch is not installed.
    """
    return derive(trace, MemoryAccounts, lambda: _compute_accounts(trace))


def _compute_accounts(trace: TraceData) -> MemoryAccounts:
    _check(trace)
    columns = _columns(trace)
    columns |= _signatures(trace, columns)
    columns["item_bytes"] = np.array(
        [ITEM_SIZES.get(code, 1) for code in range(max(ITEM_SIZES) + 1)], dtype=np.int64
    )
    find = trace.names.find
    result = _native.memory_accounts(
        columns,
        accumulate=find("torch::autograd::AccumulateGrad"),
        detach=find("aten::detach"),
        add=find("aten::add_"),
    )
    blocks = _blocks(trace, result["keys"])
    categories = _categories(result["categories"], blocks)
    return MemoryAccounts(blocks, categories, _timeline(result["timeline"], categories))


def _check(trace: TraceData) -> None:
    options = trace.metadata.get("options", {})
    needed = {"shapes": "record_shapes=True", "memory": "profile_memory=True"}
    missing = [flag for option, flag in needed.items() if options.get(option) is False]
    if missing:
        raise UsageError(
            f"{', '.join(missing)} required for memory profiling. Pass this to profile() and "
            "record again."
        )
    if not options and not (trace.table("allocations")["allocation_id"] >= 0).any():
        raise UsageError(
            "The trace lacks the tensor of each allocation: another tool recorded it, or memory "
            "was not recorded. Record it with "
            "opscope.profile(record_shapes=True, profile_memory=True)."
        )


def _columns(trace: TraceData) -> Columns:
    """Columns for native code, by its names."""
    columns: Columns = {}
    for table_name, names in _COLUMNS.items():
        table = trace.table(table_name)
        if table_name == "parameters":
            table = table.take(held_rows(trace))
        for name in names:
            if name in ("sizes", "strides"):
                lists = table.lists(name)
                columns[f"{table_name}.{name}.offsets"] = lists.offsets
                columns[f"{table_name}.{name}.values"] = lists.values
            else:
                columns[f"{table_name}.{name}"] = table[name]
    return columns


def held_rows(trace: TraceData) -> Values:
    """Rows of ``parameters`` of called modules and optimizers, with the parameter itself."""
    table, calls = trace.table("parameters"), trace.table("python_calls")
    if not len(table):
        return np.zeros(0, dtype=np.int64)
    # One more element, so that row -1 (a call without an event) is not a call.
    kind = np.append(trace.events["kind"], EventKind.OPERATOR)[calls["event"]]
    called = np.isin(kind, (EventKind.PYTHON_CALL, EventKind.MODULE_CALL, EventKind.OPTIMIZER_CALL))
    held = np.zeros(len(table), dtype=np.bool_)
    for owner in ("module", "optimizer"):
        owned = (table[owner] >= 0) & np.isin(table[owner], calls[owner][called])
        number = table[owner].astype(np.int64) << 32 | table["parameter"]
        held |= owned & np.isin(number, number[owned & (table["role"] == ParameterRole.PARAMETER)])
    return np.flatnonzero(held)


def _signatures(trace: TraceData, columns: Columns) -> Columns:
    """Access of every kind of operator call, from the schemas, as columns for native code."""
    of_event, name, kinds = _native.operator_signatures(columns)
    operators = kept(trace.metadata)
    signatures = [
        match_signature(trace.names[row], letters, operators)
        for row, letters in zip(name.tolist(), kinds, strict=True)
    ]
    offsets = np.zeros(len(signatures) + 1, dtype=np.int64)
    np.cumsum([len(signature.access) for signature in signatures], out=offsets[1:])
    return {
        "signatures.of_event": of_event,
        "signatures.has_schema": np.array([bool(s.overloads) for s in signatures], dtype=np.uint8),
        "signatures.offsets": offsets,
        "signatures.access": np.array([a for s in signatures for a in s.access], dtype=np.uint8),
    }


def _blocks(trace: TraceData, keys: dict[str, Any]) -> MemoryBlocks:
    of_parameter = np.full(len(trace.table("parameters")), -1, dtype=np.int32)
    of_parameter[held_rows(trace)] = keys.pop("of_parameter")
    return MemoryBlocks(of_parameter=of_parameter, **keys)


def _categories(columns: dict[str, Any], blocks: MemoryBlocks) -> Categories:
    block = np.repeat(np.arange(len(blocks)), np.diff(columns["version_offsets"]))
    of_tensor = columns["of_tensor"][blocks.tensor[block]]
    of_block = columns["of_key"][block]
    shared = np.where(of_tensor > 0, of_tensor, of_block)
    return Categories(
        of_tensor=columns["of_tensor"],
        of_block=columns["of_key"],
        own=columns["of_version"],
        of_version=np.where(shared > 0, shared, columns["of_version"]),
        labelled=columns["labelled"].astype(bool),
        version_offsets=columns["version_offsets"],
    )


def _timeline(columns: dict[str, Any], categories: Categories) -> MemoryTimeline:
    block = columns.pop("key")
    has_block = block >= 0
    changes = has_block & (columns["action"] == Action.INCREMENT_VERSION)
    number = np.where(has_block, categories.version_offsets[block] + columns["version"], 0)
    # One more element, for a trace without any version.
    of_version = np.append(categories.of_version, np.uint8(Category.UNKNOWN))
    category = np.where(has_block, of_version[number], Category.UNKNOWN).astype(np.uint8)
    after = np.where(has_block, of_version[number + changes], Category.UNKNOWN).astype(np.uint8)
    return MemoryTimeline(block=block, category=category, category_after=after, **columns)
