"""What is made whole, row by row, and then read in part."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import bytes_text, share_text
from opscope.columns.dtypes import ITEM_SIZES
from opscope.columns.schema import AllocationAction
from opscope.columns.shapes import element_counts
from opscope.findings.bytes_made import bytes_made
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.subject import Flags, Subject, Values
from opscope.findings.values import computed_values

_BY_ROWS = (
    "aten::stack", "aten::cat", "aten::concat", "aten::linear", "aten::addmm", "aten::mm",
    "aten::matmul",
)  # fmt: skip
"""Operators that make each row by itself: of fewer rows they take less time by as much."""

_SORTING, _LOOKED_AT_NS = ("aten::sort", "aten::argsort"), 3
"""Of what these order, the first few are found by one look at each element (topk: 2.8 ns)."""

_VIEWING = (
    "aten::select", "aten::slice", "aten::narrow", "aten::unbind", "aten::split", "aten::chunk",
    "aten::detach", "aten::view", "aten::reshape", "aten::t", "aten::transpose", "aten::permute",
    "aten::squeeze", "aten::unsqueeze", "aten::expand", "aten::unflatten", "aten::flatten",
    "aten::alias", "aten::numpy_T",
)  # fmt: skip
"""These read nothing."""

_CHOOSING = (
    "aten::index", "aten::index_select", "aten::gather", "aten::take_along_dim",
    "aten::masked_select", "aten::embedding", "aten::take",
)  # fmt: skip
"""These read as much as they make."""

_LITTLE, _FEWEST, _WORTH_SAYING = 0.25, 3, 0.02


def _find(subject: Subject) -> Evidence | None:
    made, read = _made_and_read(subject)
    sorting = subject.named(*_SORTING)
    candidate = (subject.named(*_BY_ROWS) | sorting) & (subject.operator_parent < 0)
    rows = np.flatnonzero(candidate & (read > 0) & (read <= _LITTLE * made))
    if len(rows) < _FEWEST:
        return None
    took = subject.duration_ns[rows]
    stays = took * (read[rows] / made[rows])
    stays = np.minimum(stays + np.where(sorting[rows], _looking_ns(subject, rows), 0), took)
    part = float(stays.sum()) / max(int(took.sum()), 1)
    saved = int(subject.with_callers_ns(rows) * (1 - part))
    if saved < _WORTH_SAYING * subject.wall_ns:
        return None
    return Evidence(
        events=rows,
        event_time_ns=took,
        time_ns=int(took.sum()),
        explanation=(
            f"{len(rows):,} operators each made up to {bytes_text(int(made[rows].max()))}, of "
            f"which {share_text(float(read[rows].sum() / made[rows].sum()))} was read afterwards: "
            f"{share_text(saved / subject.wall_ns)} of the time is for the rest."
        ),
        saved_ns=saved,
        saved_by=(
            "these operators, with the Python that calls them, but for the part that is read"
            + (
                f"; {_LOOKED_AT_NS} ns for looking at an element stay"
                if sorting[rows].any()
                else ""
            )
        ),
    )


def _looking_ns(subject: Subject, rows: Values) -> Values:
    """What it takes to look at all elements of the first argument of each."""
    counts = np.append(element_counts(subject.trace.table("tensors").lists("sizes")), 0)
    elements = counts[subject.tensor_argument(0)[rows]]
    return np.asarray(elements * _LOOKED_AT_NS, dtype=np.int64)


def _made_and_read(subject: Subject) -> tuple[Values, Values]:
    """Bytes that outermost operators made for others to read, and how many of these were read.

    What was read more than once counts each time, so that it is at most so much. Shape (events,).
    """
    values, tensors = computed_values(subject), subject.trace.table("tensors")
    event = values.event
    items = np.array([ITEM_SIZES.get(code, 1) for code in range(256)], dtype=np.int64)
    size = element_counts(tensors.lists("sizes"))[values.rows]
    size = size * items[tensors["dtype"][values.rows].astype(np.uint8)]
    size[subject.named(*_VIEWING)[event]] = 0
    chooses = subject.named(*_CHOOSING)[event]
    size[chooses] = np.minimum(size, bytes_made(subject)[event])[chooses]
    known, read = values.producer >= 0, np.zeros(len(subject.parent), dtype=np.int64)
    np.add.at(read, values.producer[known], size[known])
    read[_given_on(subject)] = 0
    return bytes_made(subject), read


def _given_on(subject: Subject) -> Flags:
    """Operators whose result the program may read without asking torch: of that nothing is known.

    It is kept beyond the recording, or was written to.
    """
    table, values = subject.trace.table("allocations"), computed_values(subject)
    freed = table["allocation_id"][table["action"] == AllocationAction.FREE]
    taken = (table["action"] == AllocationAction.ALLOCATE) & (table["event"] >= 0)
    kept = taken & ~np.isin(table["allocation_id"], freed)
    makers = subject.outermost_operator[table["event"][kept]]
    given = values.is_written.copy()
    given[makers[makers >= 0]] = True
    return given


PARTLY_USED = Pattern(
    id="partly-used-results",
    title="Results are made whole, and a small part of them is read",
    advice=(
        "Choose first, then compute: sample from the list and stack what was sampled, index the "
        "hidden state before the layer (head(hidden[:, -1]), not head(hidden)[:, -1]). Take "
        "torch.topk for the first few of what is sorted, and torch.kthvalue for one. What is "
        "needed again and again can be put together once, before the loop."
    ),
    find=_find,
    needs=(Needs.SHAPES, Needs.IDENTITY, Needs.MEMORY),
)
