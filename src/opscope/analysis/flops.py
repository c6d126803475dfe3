"""Floating point operations of every event, and the share of operator time that they cover."""

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
    """Number of each event's first arguments that are not its own. Shape (events,).

    If ``torch.func`` unwraps its tensors, torch leaves the wrappers on the stack for the inner
    operator, and reports the whole stack as its arguments. Only events in ``wanted`` count; an
    affected one has a multiple of the arguments of the same operator around it.
    """
    skipped = np.zeros(len(trace.events), dtype=np.int32)
    parent, name = trace.events["parent"], trace.events["name"]
    is_repeated = wanted & (parent >= 0) & wanted[parent] & (name == name[parent])
    if not is_repeated.any():
        return skipped
    counts = _argument_counts(trace)
    own = counts[nearest_ancestor(parent, wanted & ~is_repeated)]
    stacked = is_repeated & (own > 0) & (counts > own)
    stacked[stacked] = counts[stacked] % own[stacked] == 0
    skipped[stacked] = (counts - own)[stacked]
    return skipped


def is_computed_inside(trace: TraceData, skipped: Rows) -> Flags:
    """Whether an event got a tensor that is not empty and has no memory. Shape (events,).

    False for files that do not identify tensors. Meta and fake tensors have no memory either, and
    nothing is computed with them.
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
    """Whether a dimension is 0, for rows of ``tensors``."""
    sizes = trace.table("tensors").lists("sizes")
    zeros = np.concatenate([[0], np.cumsum(sizes.values == 0)])
    empty: Flags = zeros[sizes.offsets[rows + 1]] > zeros[sizes.offsets[rows]]
    return empty


def _argument_counts(trace: TraceData) -> Rows:
    """Number of positional arguments recorded for every event. Shape (events,)."""
    counts = np.zeros(len(trace.events), dtype=np.int32)
    for name in ("tensors", "scalars"):
        table = trace.table(name)
        rows = np.flatnonzero(table["role"] == Role.INPUT)
        np.maximum.at(counts, table["event"][rows], table["argument"][rows].astype(np.int32) + 1)
    return counts


@dataclass(frozen=True)
class FlopCounts:
    """Counted operations."""

    # operations of each event, 0 without a formula and inside counted events, so that values add
    # up; shape (events,). Not counted: products of sparse tensors, whose shapes do not give their
    # number of elements, and operators that raised an exception
    flops: Values
    covered_ns: int  # time of the counted events
    operator_ns: int  # time of all outermost operators

    @property
    def coverage(self) -> float:
        """Share of operator time that a formula covers, 0 to 1."""
        return self.covered_ns / self.operator_ns if self.operator_ns else 0.0


@derived
def count_flops(trace: TraceData) -> FlopCounts:
    """Apply the formulas to every event that has one; needs recorded argument shapes."""
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
    """Formula value of every event, -1 without one. One call per signature."""
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
    has &= ~trace.events["raised"]  # unknown how much it computed before the exception
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
        return -1  # arguments of a form that the formula does not support: not covered
    return value if value is not None and 0 <= value < 1 << 63 else -1


def _shape(argument: Argument | None) -> tuple[int, ...] | None:
    return argument.sizes if isinstance(argument, TensorRecord) else None


def _value(argument: Argument | None) -> object:
    return argument.value if isinstance(argument, Scalar) else None
