"""Tables of which few rows are wanted, and all are worked on."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import share_text
from opscope.columns.schema import EventKind
from opscope.columns.shapes import element_counts
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.patterns.matmul import PRODUCT_CALLS
from opscope.findings.subject import Subject, Values
from opscope.findings.values import computed_values
from opscope.timeline.tree.event_tree import nearest_ancestor

_DENSE = ("aten::embedding_dense_backward", "aten::_embedding_bag_dense_backward")
_ROWS = (2, 5)
"""Position of the number of rows in the table among the arguments of either."""

_WORTH_SAYING, _FEW = 0.02, 4
"""The table has to have so many times the rows that a step looks up."""

_BYTES_A_NS = 8
"""Memory of an ordinary machine is read and written so fast by one thread."""

_CONVERSIONS = ("aten::to", "aten::_to_copy", "aten::type_as", "aten::view", "aten::reshape")


def _find_dense(subject: Subject) -> Evidence | None:
    rows, table_rows, looked_up = _dense_backward(subject)
    if not len(rows):
        return None
    width = _last_size(subject, subject.tensor_argument(0)[rows])
    elsewhere = _work_on(subject, np.unique(table_rows * width))
    total = int(subject.duration_ns[rows].sum()) + elsewhere
    if total < _WORTH_SAYING * subject.wall_ns:
        return None
    touched = float(looked_up.sum() / table_rows.sum())
    return Evidence(
        events=rows,
        time_ns=total,
        explanation=(
            f"{len(rows):,} backward passes of a lookup made a gradient as large as the whole "
            f"table, {int(table_rows.max()):,} rows, of which at most {share_text(touched)} were "
            "looked up; the optimizer then went through all of them: together "
            f"{share_text(total / subject.wall_ns)} of the time."
        ),
        saved_ns=int(total * (1 - touched)),
        saved_by="making and applying gradients of the rows that were not looked up",
    )


def _dense_backward(subject: Subject) -> tuple[Values, Values, Values]:
    """Those of large tables: rows, rows of each table, and how many rows were looked up."""
    rows_of, names = np.full(len(subject.parent), -1, dtype=np.int64), subject.trace.names
    values = subject.trace.table("scalars")["value"]
    for name, position in zip(_DENSE, _ROWS, strict=True):
        scalar = subject.scalar_argument(position)
        for row in np.flatnonzero(subject.named(name) & (scalar >= 0)).tolist():
            text = names[int(values[scalar[row]])]
            rows_of[row] = int(text) if text.isdigit() else -1
    indices = subject.tensor_argument(1)
    counts = element_counts(subject.trace.table("tensors").lists("sizes"))
    looked_up = np.where(indices >= 0, counts[indices] if len(counts) else 0, 0)
    rows = np.flatnonzero((rows_of >= _FEW * looked_up) & (rows_of > 0))
    return rows, rows_of[rows], looked_up[rows]


def _last_size(subject: Subject, tensor: Values) -> Values:
    sizes = subject.trace.table("tensors").lists("sizes")
    last = np.maximum(sizes.offsets[tensor + 1] - 1, 0)
    return np.where(tensor >= 0, sizes.values[last], 0).astype(np.int64)


def _work_on(subject: Subject, elements: Values) -> int:
    """Of training steps' outermost operators, their time for tensors with so many elements."""
    tensors = subject.trace.table("tensors")
    counts = element_counts(tensors.lists("sizes"))
    event = tensors["event"].astype(np.int64)
    step = subject.is_training | (subject.events["kind"] == EventKind.OPTIMIZER_CALL)
    in_step = nearest_ancestor(subject.parent, step & ~subject.is_operator)[event] >= 0
    chosen = in_step & (subject.operator_parent[event] < 0) & subject.is_operator[event]
    size = len(subject.parent)
    every = np.bincount(event[chosen], weights=counts[chosen], minlength=size)
    wanted = chosen & np.isin(counts, elements)
    part = np.bincount(event[wanted], weights=counts[wanted], minlength=size)
    return int((subject.duration_ns * part / np.maximum(every, 1)).sum())


def _find_one_hot(subject: Subject) -> Evidence | None:
    values = computed_values(subject)
    encoding = subject.named("aten::one_hot") & (subject.operator_parent < 0)
    if not encoding.any():
        return None
    converting = subject.named(*_CONVERSIONS)
    made_of_it = values.leads_to(encoding, converting)
    products = np.flatnonzero(made_of_it & subject.named(*PRODUCT_CALLS))
    if not len(products):
        return None
    before = np.flatnonzero(encoding | (made_of_it & converting & (subject.operator_parent < 0)))
    total = int(subject.duration_ns[products].sum() + subject.duration_ns[before].sum())
    if total < _WORTH_SAYING * subject.wall_ns:
        return None
    events = np.sort(np.concatenate([products, before]))
    return Evidence(
        events=events,
        time_ns=total,
        explanation=(
            f"{len(products):,} products take rows out of a table by multiplying it with ones and "
            "zeros: every row is read and multiplied, where one is wanted, "
            f"{share_text(total / subject.wall_ns)} of the time."
        ),
        saved_ns=max(subject.with_callers_ns(events) - _lookups_ns(subject, products), 0),
        saved_by="the encodings and the products: a lookup reads the wanted rows alone",
    )


def _lookups_ns(subject: Subject, products: Values) -> int:
    """What looking up takes that makes what these products made."""
    table = subject.trace.table("allocations")
    is_product = np.zeros(len(subject.parent) + 1, dtype=np.bool_)
    is_product[products] = True
    around = np.append(subject.outermost_operator, -1)[table["event"]]
    made = int(table["size_bytes"][is_product[around] & (table["size_bytes"] > 0)].sum())
    reading = int(2 * made / _BYTES_A_NS)
    return reading + len(products) * subject.call_cost_ns


DENSE_GRADIENTS = Pattern(
    id="dense-embedding-gradients",
    title="Gradients of a large embedding are dense",
    advice=(
        "Pass sparse=True to nn.Embedding or nn.EmbeddingBag, with SGD, Adagrad or SparseAdam "
        "(an optimizer of its own for the table): only rows that were looked up are then updated."
    ),
    find=_find_dense,
    needs=(Needs.SHAPES,),
    link="https://pytorch.org/docs/stable/generated/torch.nn.Embedding.html",
)

ONE_HOT = Pattern(
    id="one-hot-product",
    title="Rows of a table are taken by a product with ones and zeros",
    advice=(
        "Look them up: torch.nn.functional.embedding(indices, table) or table[indices] in place of "
        "one_hot(indices) @ table."
    ),
    find=_find_one_hot,
    needs=(Needs.SHAPES, Needs.IDENTITY, Needs.MEMORY),
)
