"""Operators in double precision."""

from __future__ import annotations

import numpy as np

from opscope.columns.dtypes import TORCH_NAMES
from opscope.findings.loop_lines import FEW_ELEMENTS, part_work_ns
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.subject import Flags, Subject, Values

_DOUBLE = next(code for code, name in TORCH_NAMES.items() if name == "float64")
_SINGLE = next(code for code, name in TORCH_NAMES.items() if name == "float32")
_WORTH_SAYING = 0.10
_TAKERS = ("method from_numpy of", "method double of", "method as_tensor of")
"""C functions that make or keep float64."""

_SMALL = 64  # tensors with fewer elements do not count: statistics, counters
_TIMES = 2.0
_TIMES_OF = {
    "aten::sigmoid": 2.9, "aten::_softmax": 2.7, "aten::_log_softmax": 2.7, "aten::gelu": 6.6,
    "aten::sqrt": 4.2, "aten::sum": 1.6, "aten::mean": 1.6, "aten::native_layer_norm": 1.2,
}  # fmt: skip
"""Time with float64 relative to float32; all other operators take twice as long.

Measured over 200 x 300 and 700 x 900 elements on one thread: products, tanh, exp, log and
elementwise operators 1.9 to 2.2; gelu 30 and 6.6."""


def _find(subject: Subject) -> Evidence | None:
    tensors = subject.trace.table("tensors")
    large = subject.elements[:-1] >= _SMALL
    double = subject.flags(tensors["event"][large & (tensors["dtype"] == _DOUBLE)])[:-1]
    rows = np.flatnonzero(subject.is_operator & double)
    took = subject.operator_self_ns[rows]
    total = int(took.sum())
    if total < _WORTH_SAYING * subject.wall_ns:
        return None
    origin = _origin(subject, large)
    return Evidence(
        events=rows,
        event_time_ns=took,
        explanation=(
            f"{len(rows):,} operators work on float64, {subject.share(total)} of the time. "
            "float64 takes twice the memory and twice the time of float32. torch creates "
            "float32 by default, NumPy float64."
        ),
        saved_ns=_saved_ns(subject, rows, took),
        saved_by=(
            "half of these operators' time; measured: more for sigmoid, softmax, gelu and "
            "square roots, less for sums and layer_norm. Call overhead remains"
        ),
        places=subject.sites.places(origin, subject.duration_ns[origin]),
    )


def _saved_ns(subject: Subject, rows: Values, took: Values) -> int:
    """Time that float32 saves: a share of the time that operators compute.

    Operators with few elements mostly have call overhead; others have almost none.
    """
    times = np.full(len(subject.trace.names), _TIMES)
    for name, row in subject.names_used.items():
        times[row] = _TIMES_OF.get(name, _TIMES)
    going = took * (1 - 1 / times[subject.events["name"][rows]])
    outer, size = subject.outermost_operator[rows], len(subject.parent)
    inside, saved = np.bincount(outer, took, size), np.bincount(outer, going, size)
    elements = np.bincount(subject.trace.table("tensors")["event"], subject.elements[:-1], size)
    computing = np.clip(part_work_ns(subject), 0, inside)
    share = np.where(elements <= FEW_ELEMENTS, computing / np.maximum(inside, 1), 1.0)
    return int((saved * share).sum())


def _origin(subject: Subject, large: Flags) -> Values:
    """Origin of float64: operators that convert to it, or else the first users."""
    tensors = subject.trace.table("tensors")
    event, double = tensors["event"], large & (tensors["dtype"] == _DOUBLE)
    mixed = subject.flags(event[large & (tensors["dtype"] == _SINGLE)])
    mixed &= subject.flags(event[double])
    entry = np.flatnonzero(mixed[:-1] & subject.is_operator)
    if len(entry):
        return np.unique(subject.outermost_operator[entry])
    taken = np.flatnonzero(subject.name_contains(*_TAKERS) & subject.sites.called_here)
    if len(taken):
        return taken
    from_outside = double & (tensors["allocation_id"] < 0) & ~tensors["requires_grad"]
    users = np.unique(subject.outermost_operator[event[from_outside]])
    return np.asarray(users[users >= 0], dtype=np.int64)


DOUBLE_PRECISION = Pattern(
    id="double-precision",
    title="Operators compute in double precision",
    advice=(
        "Convert once where the data comes in: torch.from_numpy(a).float(), "
        "dtype=torch.float32; remove model.double() and "
        "torch.set_default_dtype(torch.float64)."
    ),
    find=_find,
    needs=(Needs.SHAPES,),
)
