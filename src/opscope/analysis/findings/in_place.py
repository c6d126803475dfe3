"""Operators that write to memory in place: theirs have a name that ends with an underscore."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.subject import Flags, Subject, Values
from opscope.trace.row_groups import order_rows
from opscope.trace.schema import Role

_LISTS = ("_foreach_", "_fused_")


def memory_written(subject: Subject) -> tuple[Values, Values]:
    """Memory that operators write to, and the outermost operator, sorted by both."""
    return subject.once(_memory_written)


def writes_to_lists(subject: Subject) -> Flags:
    """Operators that write to many tensors: to which of them is not told. Shape (events,)."""
    return subject.named(*(name for name in _writing(subject) if _takes_lists(name)))


def allocations_written(subject: Subject) -> tuple[Values, Values]:
    """Allocations that operators write to, by id, and the outermost operator."""
    tensors = subject.trace.table("tensors")
    event = tensors["event"].astype(np.int64)
    rows = subject.named(*_writing(subject))[event] & (tensors["argument"] == 0)
    rows &= tensors["allocation_id"] >= 0
    return tensors["allocation_id"][rows], _writers(subject, event[rows])


def _memory_written(subject: Subject) -> tuple[Values, Values]:
    tensors = subject.trace.table("tensors")
    event, is_input = tensors["event"].astype(np.int64), tensors["role"] == Role.INPUT
    written = subject.named(*_writing(subject))[event] & (tensors["argument"] == 0)
    written |= writes_to_lists(subject)[event]
    rows = np.flatnonzero(written & is_input & (tensors["storage"] != 0))
    memory = tensors["storage"][rows].astype(np.int64)
    by = _writers(subject, event[rows])
    order = order_rows(memory, by)
    return memory[order], by[order]


def _writers(subject: Subject, event: Values) -> Values:
    """The outermost operator; an annotation with arguments is in none."""
    by = subject.outermost_operator[event]
    return np.where(by >= 0, by, event)


def _writing(subject: Subject) -> list[str]:
    return [text for text in subject.names_used if text.endswith("_")]


def _takes_lists(name: str) -> bool:
    return any(part in name for part in _LISTS)
