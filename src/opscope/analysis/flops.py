"""Floating point operations of every event, and how much of the operators' time they explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.analysis.flop_formulas import FORMULAS, OperatorCall
from opscope.columns.schema import EventKind, Role
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Flags, Rows, Values
from opscope.timeline.signatures import (
    Signature,
    first_of_each,
    mix,
    scalar_signatures,
    shape_signatures,
)
from opscope.timeline.tree.arguments import Argument, Arguments, Scalar, TensorRecord
from opscope.timeline.tree.event_tree import event_tree, nearest_ancestor


def arguments_of_callers(trace: TraceData, wanted: Flags) -> Rows:
    """How many of the first arguments recorded of each event are not its own. Shape (events,).

    Where ``torch.func`` unwraps its tensors, torch leaves the wrappers on the stack that it hands
    to the operator inside, and reports the whole stack as that one's arguments. ``wanted`` has the
    events of interest; they have the arguments of the same operator around them twice or more.
    """
    skipped = np.zeros(len(trace.events), dtype=np.int32)
    parent, name = trace.events["parent"], trace.events["name"]
    again = wanted & (parent >= 0) & wanted[parent] & (name == name[parent])
    if not again.any():
        return skipped
    counts = _argument_counts(trace)
    own = counts[nearest_ancestor(parent, wanted & ~again)]
    stacked = again & (own > 0) & (counts > own)
    stacked[stacked] = counts[stacked] % own[stacked] == 0
    skipped[stacked] = (counts - own)[stacked]
    return skipped


def is_computed_inside(trace: TraceData, skipped: Rows) -> Flags:
    """Whether an event was given a tensor that is not empty and has no memory. Shape (events,).

    Of files that do not say which tensor is which nothing is known, so False. Meta tensors and fake
    ones have no memory either, and nothing is computed with them.
    """
    tensors = trace.table("tensors")
    event = tensors["event"]
    bare = (tensors["role"] == Role.INPUT) & (tensors["impl"] != 0) & (tensors["storage"] == 0)
    rows = np.flatnonzero(bare)
    rows = rows[tensors["argument"][rows] >= skipped[event[rows]]]
    result = np.zeros(len(trace.events), dtype=np.bool_)
    result[event[rows[~_is_empty(trace, rows)]]] = True
    return result


def _is_empty(trace: TraceData, rows: Values) -> Flags:
    """Whether a dimension is 0, of rows of ``tensors``."""
    sizes = trace.table("tensors").lists("sizes")
    zeros = np.concatenate([[0], np.cumsum(sizes.values == 0)])
    empty: Flags = zeros[sizes.offsets[rows + 1]] > zeros[sizes.offsets[rows]]
    return empty


def _argument_counts(trace: TraceData) -> Rows:
    """How many positional arguments were recorded of every event."""
    counts = np.zeros(len(trace.events), dtype=np.int32)
    for name in ("tensors", "scalars"):
        table = trace.table(name)
        rows = np.flatnonzero(table["role"] == Role.INPUT)
        np.maximum.at(counts, table["event"][rows], table["argument"][rows].astype(np.int32) + 1)
    return counts


@dataclass(frozen=True)
class FlopCounts:
    """Counted operations."""

    # per event, 0 where no formula applies; shape (events,). An event inside one that is counted
    # has none of its own, so the values add up. Not counted is what cannot be known: products of
    # sparse tensors, whose shapes do not say how many elements they have, and operators that an
    # exception left
    flops: Values
    covered_ns: int  # time of the events counted
    operator_ns: int  # time of all operators, nested ones not counted again

    @property
    def coverage(self) -> float:
        """Share of operator time that a formula covers, 0 to 1."""
        return self.covered_ns / self.operator_ns if self.operator_ns else 0.0


@derived
def count_flops(trace: TraceData) -> FlopCounts:
    """Apply the formulas to every event that has one; argument shapes must have been recorded."""
    tree, kind = event_tree(trace), trace.events["kind"]
    flops = _values(trace)
    counted = flops >= 0
    if counted.any():
        counted &= nearest_ancestor(tree.parent, counted) < 0
    is_operator = kind == EventKind.OPERATOR
    outermost = is_operator & (nearest_ancestor(tree.parent, is_operator) < 0)
    return FlopCounts(
        flops=np.where(counted, flops, 0),
        covered_ns=int(tree.duration_ns[counted].sum()),
        operator_ns=int(tree.duration_ns[outermost].sum()),
    )


def _values(trace: TraceData) -> Values:
    """The formula's value for every event, -1 where there is none. One call per signature."""
    result = np.full(len(trace.events), -1, dtype=np.int64)
    wanted = _has_formula(trace)
    if not wanted.any() or not len(trace.table("tensors")):
        return result
    skipped = arguments_of_callers(trace, wanted)
    wanted &= ~is_computed_inside(trace, skipped)
    rows = np.flatnonzero(wanted)
    signatures = _signatures(trace, wanted)[rows] ^ mix(skipped[rows].astype(np.uint64))
    group, first = first_of_each(signatures)
    arguments = Arguments(trace)
    per_group = [_apply(trace, arguments, int(e), int(skipped[e])) for e in rows[first]]
    result[rows] = np.array(per_group, dtype=np.int64)[group]
    return result


def _has_formula(trace: TraceData) -> Flags:
    name = trace.events["name"]
    used = np.flatnonzero(np.bincount(name + 1, minlength=1)) - 1
    with_formula = [n for n in used.tolist() if trace.names[n] in FORMULAS]
    has: Flags = trace.events["kind"] == EventKind.OPERATOR
    has &= np.isin(name, with_formula)
    has &= ~trace.events["raised"]  # what it computed before it was left is not known
    return has


def _signatures(trace: TraceData, wanted: Flags) -> Signature:
    shapes, scalars = shape_signatures(trace, wanted), scalar_signatures(trace, wanted)
    return mix(mix(shapes) ^ mix(scalars + np.uint64(1)) ^ mix(mix(trace.events["name"])))


def _apply(trace: TraceData, arguments: Arguments, event: int, skipped: int) -> int:
    inputs = arguments.inputs(event)[skipped:]
    call = OperatorCall([_shape(a) for a in inputs], [_value(a) for a in inputs])
    try:
        value = FORMULAS[trace.event_name(event)](call)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return -1  # arguments of another form than the formula knows: not covered
    return value if value is not None and 0 <= value < 1 << 63 else -1


def _shape(argument: Argument | None) -> tuple[int, ...] | None:
    return argument.sizes if isinstance(argument, TensorRecord) else None


def _value(argument: Argument | None) -> object:
    return argument.value if isinstance(argument, Scalar) else None
