"""Waiting for the device: values read back, and copies that hold the program up."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.pattern import Evidence, Pattern
from opscope.analysis.findings.subject import CUDA, Subject, Values
from opscope.analysis.quantity_text import share_text, time_text
from opscope.trace.schema import EventKind
from opscope.tree.ancestry import nearest_ancestor

_READS = ("aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero", "aten::masked_select")
"""Operators whose result's value or shape Python needs before it can go on."""

_ASKED = ("aten::item", "aten::index", "aten::equal")
"""Operators that a program calls for such a value, directly or as ``x[mask]``."""

_WAITS = ("Synchronize", "cudaMemcpy")
_WORTH_SAYING = 0.005


def _find(subject: Subject) -> Evidence | None:
    waits = _waiting_calls(subject)
    return _on_device(subject, waits) if len(waits) else _on_host(subject)


def _waiting_calls(subject: Subject) -> Values:
    """Runtime calls that return only when the device is done. Rows."""
    calls = np.asarray(subject.events["kind"] == EventKind.RUNTIME_CALL)
    waits = calls & subject.named_like(*_WAITS) & ~subject.named_like("Async")
    around = subject.outermost_operator
    return np.flatnonzero(waits & (around >= 0))


def _on_device(subject: Subject, waits: Values) -> Evidence | None:
    """Each wait holds back what is launched next: the device idles until that arrives."""
    around = subject.outermost_operator[waits]
    start, end = subject.device_work
    idle = np.zeros(len(waits), dtype=np.int64)
    if len(start):
        busy_until = np.maximum.accumulate(end)
        after = np.searchsorted(start, subject.end_ns[waits])
        known = (after > 0) & (after < len(start))
        before = np.maximum(subject.start_ns[waits[known]], busy_until[after[known] - 1])
        idle[known] = np.maximum(start[after[known]] - before, 0)
    took = subject.duration_ns[waits]
    saved = int(idle[np.unique(around, return_index=True)[1]].sum())
    names = _most_frequent(subject, around)
    return Evidence(
        events=around,
        event_time_ns=took,
        time_ns=int(took.sum()),
        explanation=(
            f"{len(waits):,} times an operator ({names}) waited for the device, {_each(took)}. "
            "Until it returns Python launches nothing, and the device runs out of work."
        ),
        saved_ns=saved,
        saved_by="the time the device then stood idle, until the next work reached it",
    )


def _on_host(subject: Subject) -> Evidence | None:
    reads = np.flatnonzero(subject.named(*_READS))
    where = subject.tensor_argument(0)[reads]
    on_device = subject.tensor_column("device_type", where) == CUDA
    if on_device.any():
        reads = reads[on_device]
    around = np.unique(subject.outermost_operator[reads])
    around = around[around >= 0]
    if not on_device.any():
        # Without a device an operator that looks at a value inside has something else to do too.
        around = around[subject.named(*_READS, *_ASKED)[around]]
    around = around[nearest_ancestor(subject.parent, subject.is_training)[around] < 0]
    took = subject.duration_ns[around]
    total = int(took.sum())
    if len(around) < 2 or (total < _WORTH_SAYING * subject.wall_ns and not on_device.any()):
        return None
    return Evidence(
        events=around,
        time_ns=total,
        explanation=(
            f"{len(around):,} times ({_most_frequent(subject, around)}) Python waited for the "
            f"value of a tensor, {_each(took)}: {share_text(total / subject.wall_ns)} of the "
            "time. On a GPU each of these stops the program until the device is done."
        ),
        saved_ns=total,
        saved_by="the time in these calls",
    )


def _each(took: Values) -> str:
    return f"{time_text(int(np.mean(took)))} each on average"


def _most_frequent(subject: Subject, rows: Values) -> str:
    names, count = np.unique(subject.events["name"][rows], return_counts=True)
    return ", ".join(subject.trace.names[row] for row in names[np.argsort(-count)][:3])


SYNCHRONISATION = Pattern(
    id="implicit-synchronisation",
    title="Python waits for values of tensors",
    advice=(
        "Keep losses and metrics as tensors and read them every N steps (total += loss.detach(); "
        "total.item() at the end); replace `if tensor:` and boolean indexing by torch.where; copy "
        "to the host with non_blocking=True from pinned memory."
    ),
    find=_find,
    link="https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization",
)
