"""How much memory operators were given, and how much they made."""

from __future__ import annotations

import numpy as np

from opscope.columns.schema import AllocationAction, Role
from opscope.columns.shapes import element_counts
from opscope.findings.subject import Subject, Values

FLOAT_BYTES = 4


def bytes_made(subject: Subject) -> Values:
    """What each outermost operator allocated, with what it called. Shape (events,)."""
    return subject.once(_allocated)


def _allocated(subject: Subject) -> Values:
    table = subject.trace.table("allocations")
    taken = (table["action"] == AllocationAction.ALLOCATE) & (table["event"] >= 0)
    around = subject.outermost_operator[table["event"][taken]]
    known = around >= 0
    return np.bincount(
        around[known], weights=table["size_bytes"][taken][known], minlength=len(subject.parent)
    ).astype(np.int64)


def bytes_given(subject: Subject) -> Values:
    """Elements of the tensors each operator was given, as if of four bytes. Shape (events,)."""
    tensors = subject.trace.table("tensors")
    given = tensors["role"] == Role.INPUT
    counts = element_counts(tensors.lists("sizes"))
    return FLOAT_BYTES * np.bincount(
        tensors["event"][given], weights=counts[given], minlength=len(subject.parent)
    ).astype(np.int64)
