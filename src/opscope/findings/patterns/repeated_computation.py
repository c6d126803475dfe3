"""Repeated computations, conversions and copies of existing results.

The same operator gets the same inputs again, so the program could keep the first result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from opscope.columns.row_groups import group_rows
from opscope.findings.pattern import TENSORS, Evidence, Needs, Pattern
from opscope.findings.patterns.matmul import PRODUCTS
from opscope.findings.repeated_values import computed_values
from opscope.findings.subject import Flags, Subject, Values

_WORTH_SAYING, _LONGEST_CHAIN, _FEWEST = 0.01, 64, 3
_COPIES = ("aten::contiguous", "aten::clone", "aten::to", "aten::_to_copy", "aten::type_as")
_BUFFERS = tuple(f"aten::{n}" for n in ("zeros", "zeros_like", "new_zeros", "detach", "lift_fresh"))
"""Operators whose result is a buffer to write to, or not their own."""

_Alike = tuple[Values, Values]  # events, and a number for the value of each


def _find(
    what: str, select: Callable[[Subject], _Alike], subject: Subject, of_calls: bool = False
) -> Evidence | None:
    """Evidence for all but the first of equal values; ``of_calls``: at calls that only repeat."""
    rows, number = select(subject)
    alike = group_rows(number)
    again = np.setdiff1d(rows, rows[alike.first])
    if not len(again):
        return None
    saved, calls = subject.with_callers_ns(again), subject.flags(again)[:-1]
    if of_calls:
        repeats = subject.sums(_again(subject, 2)) == subject.sums(subject.is_outermost)
        calls |= repeats & (subject.sums(calls) > 0)
    outer = np.flatnonzero(subject.outermost_of(calls))
    return Evidence(
        events=again,
        explanation=(
            f"{len(again):,} operators {what}: {int((alike.count > 1).sum()):,} different "
            f"results, {subject.share(saved)} of the time for results that already existed."
        ),
        saved_ns=saved,
        saved_by="all computations of each result but the first, with the calls around them",
        places=subject.sites.places(outer, subject.duration_ns[outer]),
    )


def _alike(subject: Subject, wanted: Flags, fewest: int) -> _Alike:
    """Rows of ``wanted`` whose value occurs at least ``fewest`` times, and their values."""
    rows = np.flatnonzero(wanted)
    number = computed_values(subject).number[rows].view(np.int64)
    alike = group_rows(number)
    often = alike.count[alike.group] >= fewest
    return rows[often], number[often]


def _again(subject: Subject, fewest: int) -> Flags:
    """Outermost operators whose value occurs ``fewest`` times and is not overwritten by others."""
    rows, _ = _alike(subject, subject.is_outermost, fewest)
    again = subject.flags(rows)[:-1]
    return again & ~computed_values(subject).overwritten(again)


def _constants(subject: Subject) -> _Alike:
    wanted = computed_values(subject).from_nothing & ~subject.named(*_BUFFERS)
    return _alike(subject, _again(subject, _FEWEST) & wanted, _FEWEST)


def _copies(subject: Subject) -> _Alike:
    values = computed_values(subject)
    copying = subject.named("aten::copy_", "aten::_to_copy", "aten::clone")
    wanted = subject.flags(subject.outermost_operator[copying])[:-1]
    wanted &= subject.named(*_COPIES) & subject.is_outermost
    rows, number = _alike(subject, wanted & ~values.is_written & ~values.from_nothing, 2)
    inner, tensor = _copied_for_products(subject)
    return np.append(rows, inner), np.append(number, tensor)


def _copied_for_products(subject: Subject) -> _Alike:
    """Repeated copies of a tensor by products that do not support its strides."""
    products = np.append(subject.named(*PRODUCTS), False)
    tensor, table = subject.tensor_argument(0), subject.trace.table("tensors")
    copying = subject.named("aten::clone") & products[subject.operator_parent] & (tensor >= 0)
    copies = np.flatnonzero(copying)
    identity = ("storage", "storage_offset", "allocation_id", "version")
    found = group_rows(*(table[name][tensor[copies]].astype(np.int64) for name in identity))
    again = found.count[found.group] >= _FEWEST
    return copies[again], found.group[again]


def _long(subject: Subject) -> Flags:
    """Operators that compute longer than their call takes; neither copies nor constants."""
    found = subject.duration_ns > subject.fixed_cost_ns
    constant = computed_values(subject).from_nothing
    return found & ~constant & ~subject.named(*_COPIES, *_BUFFERS)


def _results(subject: Subject) -> _Alike:
    """Operators with the same value in every iteration that feed varying values.

    If nothing varies but what collects the results, as in a benchmark, the repetition is intended.
    """
    values, again = computed_values(subject), _again(subject, 2)
    wanted = again & _long(subject) & ~values.rests_on_numbers
    rows, number = _alike(subject, wanted, _FEWEST)
    # Only results that finally reach an operator that varies in every iteration.
    known = np.where(values.is_deep[values.event], -1, values.source)
    line = group_rows(subject.events["name"], *subject.sites.at)
    varies = ~again & (line.count[line.group] >= _FEWEST)
    useful = again & values.feeds(varies, again, known, _LONGEST_CHAIN)
    used = values.number[useful].view(np.int64)
    going = subject.flags(rows[np.isin(number, used)])[:-1]
    # Include operators that only feed these. Constants and copies have their own findings.
    others = ~subject.named(*_COPIES) & (~values.from_nothing | subject.named(*_BUFFERS))
    known = values.source >= 0
    event, source = values.event[known], values.source[known]
    for _ in range(_LONGEST_CHAIN):
        wanted = np.zeros_like(going)
        wanted[source[going[event]]] = True
        wanted[source[~going[event] & (event != source)]] = False
        wanted &= again & others & ~going
        if not wanted.any():
            break
        going |= wanted
    return _alike(subject, going, 1)


def _twice(subject: Subject) -> _Alike:
    """Rows with the same value at more than one line, one row for each line."""
    rows, number = _alike(subject, _again(subject, 2) & _long(subject), 2)
    frame, line = (column[rows] for column in subject.sites.at)
    # With the line that called the function: a function may have two callers.
    pairs = group_rows(number, frame, line, subject.sites.outer_lines()[rows])
    first = np.sort(pairs.first)
    return rows[first], number[first]


CONSTANTS = Pattern(
    id="repeated-constants",
    title="Constants are computed repeatedly",
    advice=(
        "Compute them once, before the loop or in __init__ (register_buffer in a module), and use "
        "the tensor."
    ),
    find=partial(_find, "compute constants, with the same result every time", _constants),
    needs=TENSORS,
    worth_saying=_WORTH_SAYING,
)

COPIES = Pattern(
    id="repeated-copies",
    title="The same tensor is copied or converted repeatedly",
    advice=(
        "Make the copy once, before the loop, and keep it (x = x.contiguous() if products copy "
        "it because of its strides); remove a clone that is only read."
    ),
    find=partial(_find, "copy or convert a tensor again that has not changed since", _copies),
    needs=TENSORS,
    worth_saying=_WORTH_SAYING,
)

RESULTS = Pattern(
    id="repeated-results",
    title="The same result is computed in every iteration",
    advice=(
        "Compute it once, before the loop, and keep it: features of a frozen network, an "
        "inverse or factorisation of a constant matrix, a normalised table."
    ),
    find=partial(
        _find,
        "repeat a computation of an earlier iteration, on tensors that have not changed since",
        _results,
        of_calls=True,
    ),
    needs=TENSORS,
    worth_saying=_WORTH_SAYING,
)

TWICE = Pattern(
    id="computed-twice",
    title="Two lines compute the same result",
    advice="Keep the first result and use it again; detach() it if no gradient is needed.",
    find=partial(
        _find, "repeat a computation of another line on the same tensors", _twice, of_calls=True
    ),
    needs=(*TENSORS, Needs.STACKS),
    worth_saying=_WORTH_SAYING,
)
