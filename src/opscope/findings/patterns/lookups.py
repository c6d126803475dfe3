"""Tables of which a step needs few rows but processes all."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import share_text
from opscope.findings.pattern import TENSORS, Evidence, Needs, Pattern
from opscope.findings.patterns.matmul import PRODUCT_CALLS
from opscope.findings.repeated_values import computed_values
from opscope.findings.subject import Subject, Values

_DENSE = ("aten::embedding_dense_backward", "aten::_embedding_bag_dense_backward")
_ROWS = (2, 5)  # position of the number of rows in the table among the arguments of either

_WORTH_SAYING, _FEW = 0.02, 4
"""Minimum ratio of table rows to rows that a step looks up."""

_BYTES_A_NS = 8  # memory bandwidth of one thread of an ordinary machine
_CONVERSIONS = ("aten::to", "aten::_to_copy", "aten::type_as", "aten::view", "aten::reshape")


def _find_dense(subject: Subject) -> Evidence | None:
    rows, table_rows, looked_up = _dense_backward(subject)
    if not len(rows):
        return None
    sizes = subject.trace.table("tensors").lists("sizes")
    gradient = subject.tensor_argument(0)[rows]
    last = np.maximum(sizes.offsets[gradient + 1] - 1, 0)
    width = np.where(gradient >= 0, sizes.values[last], 0).astype(np.int64)
    total = subject.time_ns(rows) + _work_on(subject, np.unique(table_rows * width))
    touched = float(looked_up.sum() / table_rows.sum())
    return Evidence(
        events=rows,
        time_ns=total,
        explanation=(
            f"{len(rows):,} backward passes of a lookup made a gradient of the whole table, "
            f"{int(table_rows.max()):,} rows, of which at most {share_text(touched)} were "
            f"looked up; the optimizer then updated all rows. Together {subject.share(total)} "
            "of the time."
        ),
        saved_ns=int(total * (1 - touched)),
        saved_by="computing and applying gradients of rows that were not looked up",
    )


def _dense_backward(subject: Subject) -> tuple[Values, Values, Values]:
    """Dense gradients of large tables: event, rows of the table, and rows looked up."""
    rows_of, names = np.full(len(subject.parent), -1, dtype=np.int64), subject.trace.names
    for name, position in zip(_DENSE, _ROWS, strict=True):
        said = subject.scalar_argument(position)
        for row in np.flatnonzero(subject.named(name) & (said >= 0)).tolist():
            text = names[int(said[row])]
            rows_of[row] = int(text) if text.isdigit() else -1
    looked_up = subject.elements[subject.tensor_argument(1)]
    rows = np.flatnonzero((rows_of >= _FEW * looked_up) & (rows_of > 0))
    return rows, rows_of[rows], looked_up[rows]


def _work_on(subject: Subject, elements: Values) -> int:
    """Time of the outermost optimizer operators for tensors of these sizes."""
    counts, event = subject.elements[:-1], subject.trace.table("tensors")["event"].astype(np.int64)
    chosen = (subject.within(subject.is_training & ~subject.is_operator) & subject.is_outermost)[
        event
    ]
    size = len(subject.parent)
    every = np.bincount(event[chosen], counts[chosen], size)
    wanted = chosen & np.isin(counts, elements)
    part = np.bincount(event[wanted], counts[wanted], size)
    return int((subject.duration_ns * part / np.maximum(every, 1)).sum())


def _find_one_hot(subject: Subject) -> Evidence | None:
    values = computed_values(subject)
    encoding = subject.named("aten::one_hot") & subject.is_outermost
    converting = subject.named(*_CONVERSIONS)
    made_of_it = values.leads_to(encoding, converting)
    products = made_of_it & subject.named(*PRODUCT_CALLS)
    if not products.any():
        return None
    before = encoding | (made_of_it & converting & subject.is_outermost)
    events = np.flatnonzero(products | before)
    # A lookup reads and writes the result of the product, in one call.
    made = int(subject.bytes_made[products].sum())
    lookups_ns = 2 * made // _BYTES_A_NS + int(products.sum()) * subject.call_cost_ns
    return Evidence(
        events=events,
        explanation=(
            f"{int(products.sum()):,} products select rows of a table by multiplying it with a "
            "one-hot matrix: they read and multiply every row to get one, "
            f"{subject.share(subject.time_ns(events))} of the time."
        ),
        saved_ns=max(subject.with_callers_ns(events) - lookups_ns, 0),
        saved_by="the encodings and the products; a lookup reads only the selected rows",
    )


DENSE_GRADIENTS = Pattern(
    id="dense-embedding-gradients",
    title="Gradients of a large embedding are dense",
    advice=(
        "Pass sparse=True to nn.Embedding or nn.EmbeddingBag, with SGD, Adagrad or SparseAdam "
        "(a separate optimizer for the table): only rows that were looked up are then updated."
    ),
    find=_find_dense,
    needs=(Needs.SHAPES,),
    worth_saying=_WORTH_SAYING,
    link="https://pytorch.org/docs/stable/generated/torch.nn.Embedding.html",
)

ONE_HOT = Pattern(
    id="one-hot-product",
    title="A one-hot product replaces a table lookup",
    advice=(
        "Use torch.nn.functional.embedding(indices, table) or table[indices] instead of "
        "one_hot(indices) @ table."
    ),
    find=_find_one_hot,
    needs=TENSORS,
    worth_saying=_WORTH_SAYING,
)
