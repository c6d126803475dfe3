"""Double precision where single would do."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.loop_lines import FEW_ELEMENTS, part_work_ns
from opscope.analysis.findings.pattern import Evidence, Needs, Pattern
from opscope.analysis.findings.subject import Subject, Values
from opscope.analysis.quantity_text import share_text
from opscope.trace.dtypes import TORCH_NAMES

_DOUBLE = next(code for code, name in TORCH_NAMES.items() if name == "float64")
_SINGLE = next(code for code, name in TORCH_NAMES.items() if name == "float32")
_WORTH_SAYING = 0.10
_TAKERS = ("method from_numpy of", "method double of", "method as_tensor of")
"""C functions that make float64 of what they are given, or keep it."""

_SMALL = 64
"""Elements of a tensor below which its precision costs nothing: statistics, counters."""


def _find(subject: Subject) -> Evidence | None:
    tensors = subject.trace.table("tensors")
    event = tensors["event"].astype(np.int64)
    large = _elements(subject) >= _SMALL
    double = np.zeros(len(subject.parent), dtype=np.bool_)
    double[event[large & (tensors["dtype"] == _DOUBLE)]] = True
    innermost = subject.is_operator & double
    rows = np.flatnonzero(innermost)
    took = subject.operator_self_ns[rows]
    total = int(took.sum())
    if total < _WORTH_SAYING * subject.wall_ns:
        return None
    origin = _origin(subject, large)
    places = subject.sites.places(origin, subject.duration_ns[origin]) if len(origin) else ()
    return Evidence(
        events=rows,
        event_time_ns=took,
        time_ns=total,
        explanation=(
            f"{len(rows):,} operators work on float64, {share_text(total / subject.wall_ns)} of "
            "the time. That is twice the memory and half the speed of float32, which torch's own "
            "functions make unless told otherwise; NumPy makes float64."
        ),
        saved_ns=_computing_ns(subject, rows, took) // 2,
        saved_by=(
            "half of these operators' time, of those with few elements half of what these take: "
            "twice as many float32 fit in a register or a page, but calling is no quicker"
        ),
        places=places,
    )


def _computing_ns(subject: Subject, rows: Values, took: Values) -> int:
    """Of what operators take, what is for their elements; calling is no quicker in float32.

    Of those with few elements all but that is calling, of others next to nothing.
    """
    outer = subject.outermost_operator[rows]
    inside = np.bincount(outer, weights=took, minlength=len(subject.parent)).astype(np.int64)
    event, elements = subject.trace.table("tensors")["event"], _elements(subject)
    of_outer = np.bincount(event, weights=elements, minlength=len(inside))
    computing = np.maximum(part_work_ns(subject), 0)
    few = of_outer <= FEW_ELEMENTS
    return int(np.where(few, np.minimum(inside, computing), inside).sum())


def _elements(subject: Subject) -> Values:
    """Number of elements of every row of tensors."""
    sizes = subject.trace.table("tensors").lists("sizes")
    length = np.diff(sizes.offsets)
    result = np.ones(len(length), dtype=np.int64)
    owner = np.repeat(np.arange(len(length)), length)
    np.multiply.at(result, owner, sizes.values[sizes.offsets[0] : sizes.offsets[-1]])
    return result


def _origin(subject: Subject, large: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Values:
    """Where float64 comes in: an operator that turns others into it, or else its first user."""
    tensors = subject.trace.table("tensors")
    event = tensors["event"].astype(np.int64)
    outer = subject.outermost_operator[event]
    mixed = np.zeros((2, len(subject.parent) + 1), dtype=np.bool_)
    for row, dtype in enumerate((_SINGLE, _DOUBLE)):
        mixed[row, event[large & (tensors["dtype"] == dtype)]] = True
    entry = np.flatnonzero((mixed[0] & mixed[1])[:-1] & subject.is_operator)
    if len(entry):
        return np.unique(subject.outermost_operator[entry])
    taken = np.flatnonzero(subject.named_like(*_TAKERS) & subject.sites.called_here)
    if len(taken):
        return taken
    double = large & (tensors["dtype"] == _DOUBLE) & (outer >= 0)
    from_outside = double & (tensors["allocation_id"] < 0) & ~tensors["requires_grad"]
    users = np.unique(outer[from_outside])
    return np.asarray(users[subject.operator_parent[users] < 0], dtype=np.int64)


DOUBLE_PRECISION = Pattern(
    id="double-precision",
    title="Operators compute in double precision",
    advice=(
        "Convert once where the data comes in: torch.from_numpy(a).float(), dtype=torch.float32; "
        "leave out model.double() and torch.set_default_dtype(torch.float64)."
    ),
    find=_find,
    needs=(Needs.SHAPES,),
)
