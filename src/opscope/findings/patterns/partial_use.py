"""Results of which only a small part is read."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import bytes_text, share_text
from opscope.columns.dtypes import ITEM_SIZES
from opscope.columns.row_groups import order_rows
from opscope.columns.schema import AllocationAction
from opscope.findings.pattern import TENSORS, Evidence, Pattern
from opscope.findings.repeated_values import computed_values
from opscope.findings.subject import VIEWS, Subject, Values

_WHOLE = (
    "aten::stack", "aten::cat", "aten::concat", "aten::linear", "aten::addmm", "aten::mm",
    "aten::matmul", "aten::linalg_svd", "aten::linalg_svdvals", "aten::linalg_eigh",
)  # fmt: skip
"""Operators that compute each row or value, in time proportional to their number."""

_SORTING, _LOOKED_AT_NS = ("aten::sort", "aten::argsort"), 3
"""Operators that sort; time per element to find only the first few (topk: 2.8 ns)."""

_SOFT = ("aten::softmax", "aten::exp", "aten::div", "aten::to")
"""Operators between sorted logits and their running sum."""

_TOP_P = (
    "Take some hundred of the largest with torch.topk before sorting and summing up; sort whole "
    "rows only where these do not reach the limit."
)

_CHOOSING = (
    "aten::index", "aten::index_select", "aten::gather", "aten::take_along_dim",
    "aten::masked_select", "aten::embedding", "aten::take",
)  # fmt: skip
"""Operators that read as much as they write."""

_LITTLE, _FEWEST = 0.25, 3


def _find(subject: Subject) -> Evidence | None:
    read, sorting = _read(subject), subject.named(*_SORTING)
    made = np.where(sorting, subject.bytes_made, _result_bytes(subject))
    candidate = (subject.named(*_WHOLE) | sorting) & subject.is_outermost
    sampling = computed_values(subject).feeds(subject.named("aten::cumsum"), subject.named(*_SOFT))
    sampling &= sorting & (made > 0) & ~subject.wants_gradients
    rows = np.flatnonzero(candidate & (sampling | (read > 0) & (read <= _LITTLE * made)))
    if len(rows) < _FEWEST:
        return None
    read[sampling] = 0
    took, given = subject.duration_ns[rows], subject.elements[subject.tensor_argument(0)[rows]]
    stays = took * (read[rows] / made[rows]) + np.where(sorting[rows], given * _LOOKED_AT_NS, 0)
    part = float(np.minimum(stays, took).sum()) / max(int(took.sum()), 1)
    saved = int(subject.with_callers_ns(rows) * (1 - part))
    sampled = int(sampling[rows].sum())
    looking = f"; {_LOOKED_AT_NS} ns for reading an element remain" if sorting[rows].any() else ""
    return Evidence(
        events=rows,
        explanation=(
            f"{len(rows):,} operators each wrote up to {bytes_text(int(made[rows].max()))}, of "
            f"which {share_text(float(read[rows].sum() / made[rows].sum()))} was read "
            f"afterwards: {subject.share(saved)} of the time goes into the unused rest."
            if 2 * sampled < len(rows)
            else f"{sampled:,} sorts of whole rows find the few largest values that sum up to a "
            f"limit, as for top-p: {subject.share(saved)} of the time."
        ),
        advice="" if 2 * sampled < len(rows) else _TOP_P,
        saved_ns=saved,
        saved_by=(
            "these operators and the Python that calls them, less the part that is read" + looking
        ),
    )


def _result_bytes(subject: Subject) -> Values:
    """Bytes of the result of each outermost operator that others get, without what it keeps for a
    backward pass; 0 for none. Shape (events,)."""
    values, table = computed_values(subject), subject.trace.table("allocations")
    taken = np.flatnonzero(table["action"] == AllocationAction.ALLOCATE)
    taken = taken[order_rows(table["allocation_id"][taken])]
    made = np.zeros(len(subject.parent), dtype=np.int64)
    if len(taken):
        wanted = subject.trace.table("tensors")["allocation_id"][values.rows]
        at = np.searchsorted(table["allocation_id"][taken], wanted).clip(0, len(taken) - 1)
        known = (values.producer >= 0) & (table["allocation_id"][taken[at]] == wanted)
        np.maximum.at(made, values.producer[known], table["size_bytes"][taken[at[known]]])
    return made


def _read(subject: Subject) -> Values:
    """Bytes of each outermost operator's result that others read; 0 if unknown. Shape (events,).

    An upper bound: bytes that are read twice count twice.
    """
    values, tensors = computed_values(subject), subject.trace.table("tensors")
    event = values.event
    items = np.array([ITEM_SIZES.get(code, 1) for code in range(256)], dtype=np.int64)
    size = subject.elements[values.rows] * items[tensors["dtype"][values.rows].astype(np.uint8)]
    size[subject.named(*VIEWS, "aten::detach")[event]] = 0
    chooses = subject.named(*_CHOOSING)[event]
    size = np.where(chooses, np.minimum(size, subject.bytes_made[event]), size)
    known, read = values.producer >= 0, np.zeros(len(subject.parent), dtype=np.int64)
    np.add.at(read, values.producer[known], size[known])
    # The program may read kept or modified results without torch.
    table = subject.trace.table("allocations")
    freed = table["allocation_id"][table["action"] == AllocationAction.FREE]
    kept = (table["action"] == AllocationAction.ALLOCATE) & (table["event"] >= 0)
    kept &= ~np.isin(table["allocation_id"], freed)
    keeps = subject.flags(subject.outermost_operator[table["event"][kept]])[:-1]
    return np.where(values.is_written | keeps, 0, read)


PARTLY_USED = Pattern(
    id="partly-used-results",
    title="Only a small part of a result is used",
    advice=(
        "Select before computing: stack only the sampled items; index the hidden state before "
        "the layer (head(hidden[:, -1]), not head(hidden)[:, -1]). Use torch.topk or "
        "torch.kthvalue instead of a full sort, and power iteration (as in "
        "parametrizations.spectral_norm) instead of a decomposition for the largest value. Build "
        "tensors that are used repeatedly once, before the loop."
    ),
    find=_find,
    needs=TENSORS,
    worth_saying=0.02,
)
