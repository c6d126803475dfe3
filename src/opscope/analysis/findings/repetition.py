"""What is computed, converted or copied again although the result is there already."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.matmul import PRODUCTS
from opscope.analysis.findings.pattern import Evidence, Needs, Pattern
from opscope.analysis.findings.subject import Flags, Subject, Values
from opscope.analysis.findings.value_uses import used_by, with_what_is_for
from opscope.analysis.findings.values import ComputedValues
from opscope.analysis.quantity_text import share_text
from opscope.analysis.signatures import first_of_each
from opscope.trace.row_groups import group_rows

_WORTH_SAYING = 0.01
_FEWEST_CONSTANTS = 3
_COPIES = ("aten::contiguous", "aten::clone", "aten::to", "aten::_to_copy", "aten::type_as")
_BUFFERS = (
    "aten::zeros",
    "aten::zeros_like",
    "aten::new_zeros",
    "aten::detach",
    "aten::lift_fresh",
)
"""A result of these is there to be written to, or none of its own."""


def _repeated(subject: Subject, wanted: Flags, fewest: int) -> tuple[Values, Values]:
    """Those of ``wanted`` whose value is there ``fewest`` times, and a number for each value."""
    rows = np.flatnonzero(wanted)
    group, _ = first_of_each(computed_values(subject).number[rows])
    again = np.bincount(group)[group] >= fewest if len(rows) else np.zeros(0, dtype=np.bool_)
    return rows[again], group[again]


def _again(subject: Subject, fewest: int) -> Flags:
    """Outermost operators whose value is there so often, and not written to by others."""
    again = np.zeros(len(subject.parent), dtype=np.bool_)
    again[_repeated(subject, _outermost(subject), fewest)[0]] = True
    return again & ~computed_values(subject).overwritten(again)


def computed_values(subject: Subject) -> ComputedValues:
    """Of this subject, made once."""
    return subject.once(ComputedValues)


def _outermost(subject: Subject) -> Flags:
    """Operators that no other one is around."""
    is_outermost = np.zeros(len(subject.parent), dtype=np.bool_)
    is_outermost[subject.outermost] = True
    return is_outermost


def _find_constants(subject: Subject) -> Evidence | None:
    from_nothing = computed_values(subject).from_nothing
    wanted = _outermost(subject) & from_nothing & ~subject.named(*_BUFFERS)
    wanted &= _again(subject, _FEWEST_CONSTANTS)
    return _evidence(
        subject, *_repeated(subject, wanted, _FEWEST_CONSTANTS),
        "are computed from nothing but constants, with the same result every time",
        "all but one computation of each result, with the Python that calls them",
    )  # fmt: skip


def _find_copies(subject: Subject) -> Evidence | None:
    values = computed_values(subject)
    copying = subject.named("aten::copy_", "aten::_to_copy", "aten::clone")
    has_copy = np.zeros(len(subject.parent), dtype=np.bool_)
    has_copy[subject.outermost_operator[np.flatnonzero(copying)]] = True
    wanted = subject.named(*_COPIES) & has_copy & (subject.operator_parent < 0)
    wanted &= ~values.written_after(np.arange(len(wanted))) & ~values.from_nothing
    rows, group = _repeated(subject, wanted, 2)
    inner, of_inner = _copied_for_products(subject)
    of_inner = of_inner + int(group.max(initial=-1)) + 1
    return _evidence(
        subject, np.append(rows, inner), np.append(group, of_inner),
        "copy or convert a tensor again that has not changed since",
        "all copies of a tensor but one, with the Python that calls them",
    )  # fmt: skip


def _copied_for_products(subject: Subject) -> tuple[Values, Values]:
    """Copies that a product makes of a tensor whose strides it cannot take, of the same again.

    Also a number for each tensor.
    """
    products = np.append(subject.named(*PRODUCTS), False)
    copies = np.flatnonzero(subject.named("aten::clone") & products[subject.operator_parent])
    tensor = subject.tensor_argument(0)[copies]
    copies, tensor = copies[tensor >= 0], tensor[tensor >= 0]
    table = subject.trace.table("tensors")
    identity = (
        table[name][tensor].astype(np.int64)
        for name in ("storage", "storage_offset", "allocation_id", "version")
    )
    found = group_rows(*identity)
    again = found.count[found.group] >= _FEWEST_CONSTANTS
    return copies[again], found.group[again]


def _find_results(subject: Subject) -> Evidence | None:
    """The same value at one line, round after round, on the way to values that differ.

    Where nothing differs, as in a benchmark, doing it again is what the program is for.
    """
    values = computed_values(subject)
    wanted = _outermost(subject) & (subject.duration_ns > subject.fixed_cost_ns)
    wanted &= ~values.from_nothing & ~subject.named(*_COPIES, *_BUFFERS)
    wanted &= ~values.rests_on_numbers()
    again = _again(subject, 2)
    rows, _ = _repeated(subject, wanted & again, _FEWEST_CONSTANTS)
    rows = rows[used_by(values, again)[rows]]
    # Constants and copies have findings of their own.
    others = ~subject.named(*_COPIES) & (~values.from_nothing | subject.named(*_BUFFERS))
    rows = np.flatnonzero(with_what_is_for(values, rows, again & others))
    return _evidence(
        subject, rows, first_of_each(values.number[rows])[0],
        "compute what was computed in an earlier round, from tensors that have not changed since",
        "all but one computation of each result, with the Python that calls them",
    )  # fmt: skip


def _find_twice(subject: Subject) -> Evidence | None:
    """The same value at more than one line: for each one line is enough."""
    values = computed_values(subject)
    wanted = _outermost(subject) & (subject.duration_ns > subject.fixed_cost_ns)
    wanted &= ~values.from_nothing & ~subject.named(*_COPIES, *_BUFFERS)
    rows, group = _repeated(subject, wanted & _again(subject, 2), 2)
    if not len(rows) or not subject.sites.known:
        return None
    line = _program_lines(subject)[rows]
    pairs = group_rows(group, line)
    value = pairs.columns[0]
    lines = np.bincount(value, minlength=int(group.max()) + 1)
    chosen = pairs.first[lines[value] > 1]
    # Of what one line did, the first occurrence stands; the line that came first keeps its own.
    chosen = chosen[np.argsort(rows[chosen])]
    _, keep = np.unique(group[chosen], return_index=True)
    again = np.delete(chosen, keep)
    if not len(again):
        return None
    took = subject.duration_ns[rows[again]]
    saved = subject.with_callers_ns(rows[again])
    if saved < _WORTH_SAYING * subject.wall_ns:
        return None
    return Evidence(
        events=rows[again],
        event_time_ns=took,
        time_ns=int(took.sum()),
        explanation=(
            f"{len(again):,} operators compute what another line has computed from the same "
            f"tensors shortly before, {share_text(saved / subject.wall_ns)} of the time."
        ),
        saved_ns=saved,
        saved_by="the second computation of each result",
    )


def _program_lines(subject: Subject) -> Values:
    """A number for the outermost line of the program each event was asked for from: its stack."""
    frame, line = (column.astype(np.int64) for column in subject.sites.at)
    number: Values = (frame + 1) * (int(line.max(initial=0)) + 2) + line + 1
    caller = subject.sites.outer_lines()
    return np.asarray(number + caller * 1_000_003, dtype=np.int64)


def _evidence(
    subject: Subject, rows: Values, group: Values, what: str, saved_by: str
) -> Evidence | None:
    if not len(rows):
        return None
    took = subject.duration_ns[rows]
    with_calls = subject.with_callers_ns(rows)
    saved = int(with_calls * _of_all_but_one(took, group))
    if saved < _WORTH_SAYING * subject.wall_ns:
        return None
    results = len(np.unique(group))
    return Evidence(
        events=rows,
        event_time_ns=took,
        time_ns=int(took.sum()),
        explanation=(
            f"{len(rows):,} operators {what}: {results:,} different results, "
            f"{share_text(saved / subject.wall_ns)} of the time for those that were there already."
        ),
        saved_ns=saved,
        saved_by=saved_by,
    )


def _of_all_but_one(took: Values, group: Values) -> float:
    """The share of the time of all but an ordinary one of each group."""
    total, count = np.bincount(group, weights=took), np.bincount(group)
    once = float((total / np.maximum(count, 1)).sum())
    return max(1 - once / max(float(took.sum()), 1.0), 0.0)


CONSTANTS = Pattern(
    id="repeated-constants",
    title="The same constants are computed again and again",
    advice=(
        "Compute them once, before the loop or in __init__ (register_buffer in a module), and use "
        "the tensor."
    ),
    find=_find_constants,
    needs=(Needs.SHAPES, Needs.IDENTITY, Needs.MEMORY),
)

COPIES = Pattern(
    id="repeated-copies",
    title="The same tensor is copied or converted again and again",
    advice=(
        "Make the copy once, before the loop, and keep it (x = x.contiguous() of what products "
        "copy because of its strides); leave out a clone that is only read."
    ),
    find=_find_copies,
    needs=(Needs.SHAPES, Needs.IDENTITY, Needs.MEMORY),
)

RESULTS = Pattern(
    id="repeated-results",
    title="The same result is computed in every round",
    advice=(
        "Compute it once, before the loop, and keep it: features of a frozen network, an inverse "
        "or a factorisation of what does not change, a normalised table."
    ),
    find=_find_results,
    needs=(Needs.SHAPES, Needs.IDENTITY, Needs.MEMORY),
)

TWICE = Pattern(
    id="computed-twice",
    title="Two lines compute the same from the same tensors",
    advice="Keep the first result and use it again; detach() it where no gradient is wanted.",
    find=_find_twice,
    needs=(Needs.SHAPES, Needs.IDENTITY, Needs.MEMORY, Needs.STACKS),
)
