"""Roofline per operator: achieved against peak, and the limit (compute or memory).

After S. Williams, A. Waterman, D. Patterson: Roofline, Communications of the ACM 52 (2009). An
operator takes at least the longer of its FLOPs at peak rate and its bytes at peak bandwidth.
Another kernel or shape could save the rest of its time. Bytes count once: repeated reads and unused
parts of cache lines are avoidable.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from math import prod
from typing import Any

import numpy as np

from opscope.analysis.flops import count_flops, is_computed_inside
from opscope.analysis.roofline.peaks import Peaks, measured_peaks
from opscope.base.reused_memory import reusing_memory
from opscope.base.shown_result import ShownResult
from opscope.columns.codes import DeviceType
from opscope.columns.dtypes import ITEM_SIZES, TORCH_NAMES
from opscope.columns.schema import EventKind, Role
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.doubts import doubts_text, require_times
from opscope.timeline.listing import launched_work
from opscope.timeline.period import Which, detailed_period_of
from opscope.timeline.signatures import Signature, first_of_each, mix, shape_signatures
from opscope.timeline.tree.arguments import Argument, Arguments, TensorRecord
from opscope.timeline.tree.event_tree import (
    event_tree,
    events_named,
    nearest_ancestor,
    subtree_sums,
)

Inputs = Sequence[Argument | None]
Traffic = Callable[[Inputs], int]

_SIZES = {TORCH_NAMES[code]: size for code, size in ITEM_SIZES.items() if code in TORCH_NAMES}


def tensors_in(inputs: Inputs) -> list[TensorRecord]:
    """All tensors among the arguments, including those in lists."""
    found: list[TensorRecord] = []
    for one in inputs:
        found += [one] if isinstance(one, TensorRecord) else one if isinstance(one, list) else []
    return [one for one in found if one.dtype]


def item_size(tensor: TensorRecord) -> int:
    """Bytes of an element."""
    return _SIZES.get(tensor.dtype, 1)


def size_of(tensor: TensorRecord) -> int:
    """Bytes of its elements; repeated elements of an expanded tensor count once."""
    strides = tensor.strides or (1,) * len(tensor.sizes)
    stored = [
        size for size, stride in zip(tensor.sizes, strides, strict=False) if stride or not size
    ]
    elements: int = prod(stored)
    return elements * item_size(tensor)


def _read(inputs: Inputs) -> int:
    return sum(map(size_of, tensors_in(inputs)))


def _read_and_broadcast(inputs: Inputs) -> int:
    """All inputs are read; the result has their broadcast shape."""
    tensors = tensors_in(inputs)
    dimensions = max(len(one.sizes) for one in tensors)
    padded = [(1,) * (dimensions - len(one.sizes)) + one.sizes for one in tensors]
    elements: int = prod(0 if 0 in sizes else max(sizes) for sizes in zip(*padded, strict=True))
    return _read(inputs) + elements * max(map(item_size, tensors))


def _first_written(inputs: Inputs) -> int:
    """All inputs are read; the first one, or a result of its size, is written."""
    return _read(inputs) + size_of(tensors_in(inputs)[0])


def _all_written(inputs: Inputs) -> int:
    """All inputs are read; the result contains all of them."""
    return 2 * _read(inputs)


def _first_list_written(inputs: Inputs) -> int:
    return _read(inputs) + sum(map(size_of, tensors_in(inputs[:1])))


def _matrix_product(inputs: Inputs, first: int = 0) -> int:
    """The factors are at ``first`` and ``first + 1``; an added tensor is read, too."""
    a, b = inputs[first], inputs[first + 1]
    if not isinstance(a, TensorRecord) or not isinstance(b, TensorRecord):
        raise LookupError("a factor is not a tensor")
    return _read(inputs) + prod(a.sizes[:-1]) * b.sizes[-1] * item_size(a)


_POINTWISE = (
    "add", "sub", "rsub", "mul", "div", "pow", "neg", "abs", "exp", "log", "sqrt", "rsqrt", "sin",
    "cos", "reciprocal", "square", "sigmoid", "tanh", "relu", "gelu", "silu", "elu", "leaky_relu",
    "hardtanh", "hardswish", "softplus", "clamp", "clamp_min", "clamp_max", "maximum", "minimum",
    "addcmul", "addcdiv", "lerp", "where", "masked_fill", "threshold_backward", "gelu_backward",
    "sigmoid_backward", "tanh_backward", "silu_backward", "elu_backward", "floor", "ceil", "round",
)  # fmt: skip
_SHAPE_OF_FIRST = (
    "_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data",
    "native_layer_norm", "native_group_norm", "native_batch_norm", "native_dropout", "clone",
    "cumsum", "flip", "roll", "contiguous",
)  # fmt: skip
_READING = (
    "sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "prod", "all", "any", "norm",
    "linalg_vector_norm", "var", "std", "logsumexp", "zero_", "fill_", "copy_", "normal_",
    "uniform_", "random_", "bernoulli_",
)  # fmt: skip
"""``copy_`` reads one and writes one tensor; filling operators only write theirs."""

TRAFFIC: dict[str, Traffic] = {
    **{f"aten::{name}": _read_and_broadcast for name in _POINTWISE},
    **{f"aten::{name}_": _first_written for name in _POINTWISE},
    **{f"aten::_foreach_{name}_": _first_list_written for name in _POINTWISE},
    **{f"aten::{name}": _first_written for name in _SHAPE_OF_FIRST},
    **{f"aten::{name}": _read for name in _READING},
    **{f"aten::{name}": _all_written for name in ("cat", "stack")},
    **{f"aten::{name}": _matrix_product for name in ("mm", "bmm", "mv", "dot")},
    "aten::_to_copy": _read_and_broadcast,
    "aten::addmm": lambda inputs: _matrix_product(inputs, 1),
    "aten::baddbmm": lambda inputs: _matrix_product(inputs, 1),
}
"""Traffic by operator."""


_MOST_BYTES = 1 << 48  # limit of an operator's bytes: more is not addressable, so the file is wrong


def bytes_moved(name: str, inputs: Inputs) -> int | None:
    """Lower bound of the bytes moved; None if the operator or its arguments are unknown."""
    traffic = TRAFFIC.get(name)
    if traffic is None or not tensors_in(inputs):
        return None
    try:
        moved = traffic(inputs)
    except (LookupError, ValueError):
        return None
    return moved if moved <= _MOST_BYTES else None


_CALL_NS = 15_000
_LITTLE = 0.25  # share of the peak: calls limit operators that are this short and reach less


class Bound(str, Enum):
    """Limit of an operator's time."""

    COMPUTE = "computing"
    MEMORY = "memory"
    CALLS = "calls"


@dataclass(frozen=True)
class RooflineRow:
    """All calls of one operator with known work.

    Attributes:
        time_ns: their total time.
        flops: floating point operations.
        moved_bytes: minimum bytes to read and write.
        reachable_ns: minimum time at the machine's peaks.
        bound: the larger part of it.
    """

    operator: str
    calls: int
    time_ns: int
    flops: int
    moved_bytes: int
    reachable_ns: float
    bound: Bound

    @property
    def share(self) -> float:
        """Achieved share of the peak."""
        return self.reachable_ns / self.time_ns if self.time_ns else 0.0

    @property
    def lost_ns(self) -> float:
        """Time beyond the minimum."""
        return max(self.time_ns - self.reachable_ns, 0.0)


@dataclass(frozen=True)
class Roofline(ShownResult):
    """Achieved and peak performance of operators.

    Attributes:
        rows: rows by operator, largest lost time first.
        covered_ns: time of the rows.
        operator_ns: time of outermost operators.
    """

    peaks: Peaks
    rows: tuple[RooflineRow, ...]
    covered_ns: int
    operator_ns: int
    notes: tuple[str, ...]

    @property
    def coverage(self) -> float:
        """Share of operator time in the rows, 0 to 1."""
        return self.covered_ns / self.operator_ns if self.operator_ns else 0.0

    @property
    def share(self) -> float:
        """Achieved share of the peak over all rows."""
        reachable_ns = sum(row.reachable_ns for row in self.rows)
        return reachable_ns / self.covered_ns if self.covered_ns else 0.0

    @property
    def lost_ns(self) -> float:
        """Time beyond the minimum over all rows."""
        return sum(row.lost_ns for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        rows = [{**asdict(row), "share": row.share, "lost_ns": row.lost_ns} for row in self.rows]
        return {**asdict(self), "rows": rows, "coverage": self.coverage}


@reusing_memory
def find_roofline(
    trace: TraceData,
    peaks: Peaks | None = None,
    which: Which | str = Which.STEADY,
    known: Peaks | None = None,
) -> Roofline:
    """Roofline: achieved and peak FLOP/s and bandwidth of operators on the CPU.

    ``peaks`` are those of the recorded machine, by default measured here; ``known`` those measured
    here for another trace of a comparison.
    """
    part = detailed_period_of(trace, which).trace
    require_times(part)
    if not len(part.table("tensors")):
        raise UsageError(
            "Argument shapes were not recorded, so the work of operators is unknown. Record "
            "with record_shapes=True (opscope run --shapes)."
        )
    work = _work(part)
    if peaks is None:
        peaks = measured_peaks(work.dtypes, known=known)
    rows = sorted(_rows(part, work, peaks), key=lambda row: -row.lost_ns)
    return Roofline(
        peaks=peaks,
        rows=tuple(rows),
        covered_ns=sum(row.time_ns for row in rows),
        operator_ns=count_flops(part).operator_ns,
        notes=(*_notes(part, work), *filter(None, [doubts_text(part)])),
    )


@dataclass(frozen=True, eq=False)
class _Work:
    """Work of events. Arrays have shape (events,) of ``event``."""

    event: Values  # outermost events with known work
    flops: Values  # floating point operations
    moved: Values  # bytes moved
    dtype: Values  # row in ``dtypes`` of the type they compute in
    dtypes: list[str]  # names of types
    elsewhere: int  # number of operators with tensors on a device


def _work(trace: TraceData) -> _Work:
    wanted = _has_traffic(trace)
    on_device = _on_device(trace) & wanted
    wanted &= ~on_device
    rows = np.flatnonzero(wanted)
    group, first = first_of_each(_signatures(trace, wanted)[rows])
    arguments, dtypes = Arguments(trace), {"": 0}
    moved, kinds = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    for number, event in enumerate(rows[first].tolist()):
        inputs = arguments.inputs(event)
        known = bytes_moved(trace.event_name(event), inputs)
        moved[number] = -1 if known is None else known
        name = tensors_in(inputs)[0].dtype if known is not None else ""
        kinds[number] = dtypes.setdefault(name, len(dtypes))
    known_here = moved[group] >= 0
    rows, group = rows[known_here], group[known_here]
    is_known = np.zeros(len(trace.events), dtype=np.bool_)
    is_known[rows] = True
    parent = event_tree(trace).parent
    outermost = nearest_ancestor(parent, is_known)[rows] < 0
    rows, group = rows[outermost], group[outermost]
    flops = subtree_sums(parent, count_flops(trace).flops)[rows]
    return _Work(rows, flops, moved[group], kinds[group], list(dtypes), int(on_device.sum()))


def _has_traffic(trace: TraceData) -> Flags:
    found = events_named(trace, TRAFFIC.__contains__)
    found &= (trace.events["kind"] == EventKind.OPERATOR) & ~trace.events["raised"]
    return found & ~is_computed_inside(trace, np.zeros(len(found), dtype=np.int32))


def _on_device(trace: TraceData) -> Flags:
    """Which events have an argument outside the CPU's memory, or launch work. Shape (events,).

    Chrome files do not say where tensors are.
    """
    tensors, gpu = trace.table("tensors"), trace.table("gpu")
    works = np.zeros(len(trace.events), dtype=np.int64)
    works[gpu["launch"][launched_work(trace)]] = 1
    found = subtree_sums(event_tree(trace).parent, works) > 0
    found[tensors["event"][tensors["device_type"] != DeviceType.CPU]] = True
    return np.asarray(found)


def _signatures(trace: TraceData, wanted: Flags) -> Signature:
    """Hash of name, shapes, dtypes and expanded dimensions of every event. Shape (events,)."""
    tensors = trace.table("tensors")
    rows = np.flatnonzero((tensors["role"] == Role.INPUT) & wanted[tensors["event"]])
    strides = tensors.lists("strides")
    zeros = np.concatenate([[0], np.cumsum(strides.values == 0)])
    expanded = zeros[strides.offsets[rows + 1]] - zeros[strides.offsets[rows]]
    place = tensors["argument"][rows].astype(np.int64) * 4096 + tensors["element"][rows]
    kind = mix((place * 64 + tensors["dtype"][rows]) * 16 + expanded)
    size = mix(_elements(tensors, rows) ^ place)
    result = mix(mix(trace.events["name"]) ^ shape_signatures(trace, wanted))
    np.add.at(result, tensors["event"][rows], kind + size)
    return result


def _elements(tensors: Any, rows: Values) -> Values:
    """Logarithmic element counts: hashes of shapes count a list of tensors as one."""
    sizes = tensors.lists("sizes")
    logs = np.concatenate([[0.0], np.cumsum(np.log2(np.maximum(sizes.values, 1)))])
    counts = logs[sizes.offsets[rows + 1]] - logs[sizes.offsets[rows]]
    return np.asarray(1e6 * counts, dtype=np.int64)


def _rows(trace: TraceData, work: _Work, peaks: Peaks) -> list[RooflineRow]:
    took = event_tree(trace).duration_ns[work.event]
    rate = np.array([peaks.flops_per_s.get(name, 0.0) for name in work.dtypes])[work.dtype]
    computing = np.divide(1e9 * work.flops, rate, out=np.zeros(len(rate)), where=rate > 0)
    sizes, group = np.unique(work.moved, return_inverse=True)
    moving = 1e9 * work.moved / np.array([peaks.bandwidth(size) for size in sizes])[group]
    reachable = np.maximum(computing, moving)
    name, of_name = np.unique(trace.events["name"][work.event], return_inverse=True)
    summed = (took, work.flops, work.moved, reachable, computing, moving)
    totals = (np.bincount(of_name, each, len(name)) for each in summed)
    calls = np.bincount(of_name, minlength=len(name))
    columns = (name.tolist(), calls.tolist(), *(total.tolist() for total in totals))
    return [
        RooflineRow(
            operator=trace.names[row],
            calls=count,
            time_ns=int(time_ns),
            flops=int(flops),
            moved_bytes=int(moved),
            reachable_ns=reach,
            bound=_bound(time_ns / count, reach / count, compute > move),
        )
        for row, count, time_ns, flops, moved, reach, compute, move in zip(*columns, strict=True)
    ]


def _bound(took: float, reachable: float, computes: bool) -> Bound:
    """Limit of an average call."""
    if took < _CALL_NS and reachable < _LITTLE * took:
        return Bound.CALLS
    return Bound.COMPUTE if computes else Bound.MEMORY


def _notes(trace: TraceData, work: _Work) -> list[str]:
    notes, host = [], str(trace.metadata.get("host_name") or "")
    if host and host != platform.node():
        notes.append(f"recorded on {host}, which may differ from the measured machine")
    if work.elsewhere:
        notes.append(f"{work.elsewhere:,} operators on devices are not included")
    return notes
