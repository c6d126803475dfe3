"""Floating point operations of every event, and how much of the operators' time they explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.computed_inside import arguments_of_callers, is_computed_inside
from opscope.analysis.flop_formulas import FORMULAS, OperatorCall
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.signatures import (
    Signature,
    first_of_each,
    mix,
    scalar_signatures,
    shape_signatures,
)
from opscope.timeline.tree.ancestry import nearest_ancestor
from opscope.timeline.tree.arguments import Argument, Arguments, Scalar, TensorRecord
from opscope.timeline.tree.event_tree import event_tree


@dataclass(frozen=True)
class FlopCounts:
    """Counted operations.

    Attributes:
        flops: per event, 0 where no formula applies; shape (events,). An event inside one that is
            counted has none of its own, so the values add up. Not counted is what cannot be known:
            products of sparse tensors, whose shapes do not say how many elements they have, and
            operators that an exception left.
        covered_ns: time of the events counted.
        operator_ns: time of all operators, nested ones not counted again.
    """

    flops: npt.NDArray[np.int64]
    covered_ns: int
    operator_ns: int

    @property
    def coverage(self) -> float:
        """Share of operator time that a formula covers, 0 to 1."""
        return self.covered_ns / self.operator_ns if self.operator_ns else 0.0


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


def _values(trace: TraceData) -> npt.NDArray[np.int64]:
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


def _has_formula(trace: TraceData) -> npt.NDArray[np.bool_]:
    name = trace.events["name"]
    used = np.flatnonzero(np.bincount(name + 1, minlength=1)) - 1
    with_formula = [n for n in used.tolist() if trace.names[n] in FORMULAS]
    has: npt.NDArray[np.bool_] = trace.events["kind"] == EventKind.OPERATOR
    has &= np.isin(name, with_formula)
    has &= ~trace.events["raised"]  # what it computed before it was left is not known
    return has


def _signatures(trace: TraceData, wanted: npt.NDArray[np.bool_]) -> Signature:
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
