"""What is computed, converted or copied again although the result is there already.

The same operator gets the same inputs again, so that the first result of each could be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from opscope.base.quantity_text import share_text
from opscope.columns.row_groups import group_rows
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.patterns.matmul import PRODUCTS
from opscope.findings.subject import Flags, Subject, Values
from opscope.findings.values import ComputedValues, computed_values

_WORTH_SAYING, _LONGEST_CHAIN = 0.01, 64
_COPIES = ("aten::contiguous", "aten::clone", "aten::to", "aten::_to_copy", "aten::type_as")
_BUFFERS = (
    "aten::zeros",
    "aten::zeros_like",
    "aten::new_zeros",
    "aten::detach",
    "aten::lift_fresh",
)
"""A result of these is there to be written to, or none of its own."""

_Alike = tuple[Values, Values]
"""Events, and a number for the value of each."""


def _find(what: str, select: Callable[[Subject], _Alike], subject: Subject) -> Evidence | None:
    """All but the first of the events that have the same value."""
    rows, number = select(subject)
    _, first, group = np.unique(number, return_index=True, return_inverse=True)
    again = np.setdiff1d(rows, rows[first])
    if not len(again):
        return None
    saved = subject.with_callers_ns(again)
    if saved < _WORTH_SAYING * subject.wall_ns:
        return None
    results = int((np.bincount(group) > 1).sum())
    return Evidence(
        events=again,
        time_ns=int(subject.duration_ns[again].sum()),
        explanation=(
            f"{len(again):,} operators {what}: {results:,} different results, "
            f"{share_text(saved / subject.wall_ns)} of the time for those that were there already."
        ),
        saved_ns=saved,
        saved_by="about all but the first computation of each result, with the calls around them",
    )


def _number(values: ComputedValues, rows: Values) -> Values:
    return values.number[rows].view(np.int64)


def _alike(values: ComputedValues, wanted: Flags, fewest: int) -> Values:
    """Those of ``wanted`` whose value is there ``fewest`` times."""
    rows = np.flatnonzero(wanted)
    _, group, count = np.unique(values.number[rows], return_inverse=True, return_counts=True)
    return rows[count[group] >= fewest]


def _again(subject: Subject, fewest: int) -> Flags:
    """Outermost operators whose value is there so often, and not written to by others."""
    values, again = computed_values(subject), np.zeros(len(subject.parent), dtype=np.bool_)
    again[_alike(values, subject.is_operator & (subject.operator_parent < 0), fewest)] = True
    return again & ~values.overwritten(again)


def _constants(subject: Subject) -> _Alike:
    values = computed_values(subject)
    wanted = _again(subject, 3) & values.from_nothing & ~subject.named(*_BUFFERS)
    rows = _alike(values, wanted, 3)
    return rows, _number(values, rows)


def _copies(subject: Subject) -> _Alike:
    values = computed_values(subject)
    copying = subject.named("aten::copy_", "aten::_to_copy", "aten::clone")
    has_copy = np.zeros(len(subject.parent) + 1, dtype=np.bool_)
    has_copy[subject.outermost_operator[copying]] = True
    wanted = subject.named(*_COPIES) & has_copy[:-1] & (subject.operator_parent < 0)
    rows = _alike(values, wanted & ~values.is_written & ~values.from_nothing, 2)
    inner, tensor = _copied_for_products(subject)
    return np.append(rows, inner), np.append(_number(values, rows), tensor)


def _copied_for_products(subject: Subject) -> _Alike:
    """Copies that a product makes of a tensor whose strides it cannot take, of the same again."""
    products = np.append(subject.named(*PRODUCTS), False)
    copies = np.flatnonzero(subject.named("aten::clone") & products[subject.operator_parent])
    tensor = subject.tensor_argument(0)[copies]
    copies, tensor = copies[tensor >= 0], tensor[tensor >= 0]
    table = subject.trace.table("tensors")
    identity = ("storage", "storage_offset", "allocation_id", "version")
    found = group_rows(*(table[name][tensor].astype(np.int64) for name in identity))
    again = found.count[found.group] >= 3
    return copies[again], found.group[again]


def _long(subject: Subject) -> Flags:
    """Results that take longer to compute than to call, neither copies nor constants."""
    values = computed_values(subject)
    found = subject.duration_ns > subject.fixed_cost_ns
    return found & ~values.from_nothing & ~subject.named(*_COPIES, *_BUFFERS)


def _results(subject: Subject) -> _Alike:
    """The same value round after round, on the way to values that differ.

    Where nothing differs, as in a benchmark, doing it again is what the program is for.
    """
    values, again = computed_values(subject), _again(subject, 2)
    rows = _alike(values, again & _long(subject) & ~values.rests_on_numbers, 3)
    used = values.number[_used_by_others(values, again)]
    rows = rows[np.isin(values.number[rows], used)]
    # Constants and copies have findings of their own.
    others = ~subject.named(*_COPIES) & (~values.from_nothing | subject.named(*_BUFFERS))
    rows = np.flatnonzero(_with_what_is_for(values, rows, again & others))
    return rows, _number(values, rows)


def _used_by_others(values: ComputedValues, again: Flags) -> Flags:
    """Of ``again``, those whose result goes into another, at last into one that is not of them."""
    useful = np.zeros(len(again), dtype=np.bool_)
    known = (values.source >= 0) & ~values.is_deep[values.event]
    event, source = values.event[known], values.source[known]
    for _ in range(_LONGEST_CHAIN):
        before = int(useful.sum())
        useful[source[~again[event] | useful[event]]] = True
        if int(useful.sum()) == before:
            break
    return useful & again


def _with_what_is_for(values: ComputedValues, rows: Values, again: Flags) -> Flags:
    """These operators, and those of ``again`` whose result no others than these get."""
    going = np.zeros(len(again), dtype=np.bool_)
    going[rows] = True
    known = values.source >= 0
    event, source = values.event[known], values.source[known]
    for _ in range(_LONGEST_CHAIN):
        before = int(going.sum())
        wanted = np.zeros_like(going)
        wanted[source[going[event]]] = True
        wanted[source[~going[event] & (event != source)]] = False
        going |= wanted & again
        if int(going.sum()) == before:
            break
    return going


def _twice(subject: Subject) -> _Alike:
    """The same value at more than one line, of each line once: for each one line is enough."""
    values = computed_values(subject)
    rows = _alike(values, _again(subject, 2) & _long(subject), 2)
    frame, line = (column.astype(np.int64) for column in subject.sites.at)
    # With the line that called its function: a function may compute for two.
    pairs = group_rows(
        values.number[rows].view(np.int64),
        frame[rows],
        line[rows],
        subject.sites.outer_lines()[rows],
    )
    rows = rows[np.sort(pairs.first)]
    return rows, _number(values, rows)


_IDENTITY = (Needs.SHAPES, Needs.IDENTITY, Needs.MEMORY)

CONSTANTS = Pattern(
    id="repeated-constants",
    title="The same constants are computed again and again",
    advice=(
        "Compute them once, before the loop or in __init__ (register_buffer in a module), and use "
        "the tensor."
    ),
    find=partial(_find, "compute constants, with the same result every time", _constants),
    needs=_IDENTITY,
)

COPIES = Pattern(
    id="repeated-copies",
    title="The same tensor is copied or converted again and again",
    advice=(
        "Make the copy once, before the loop, and keep it (x = x.contiguous() of what products "
        "copy because of its strides); leave out a clone that is only read."
    ),
    find=partial(_find, "copy or convert a tensor again that has not changed since", _copies),
    needs=_IDENTITY,
)

RESULTS = Pattern(
    id="repeated-results",
    title="The same result is computed in every round",
    advice=(
        "Compute it once, before the loop, and keep it: features of a frozen network, an inverse "
        "or a factorisation of what does not change, a normalised table."
    ),
    find=partial(
        _find,
        "compute what an earlier round computed, from tensors that have not changed since",
        _results,
    ),
    needs=_IDENTITY,
)

TWICE = Pattern(
    id="computed-twice",
    title="Two lines compute the same from the same tensors",
    advice="Keep the first result and use it again; detach() it where no gradient is wanted.",
    find=partial(_find, "compute what another line computed from the same tensors", _twice),
    needs=(*_IDENTITY, Needs.STACKS),
)
