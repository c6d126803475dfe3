"""Repeated set-up of layers and worker processes."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import time_text
from opscope.columns.row_groups import group_rows
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.status import Status
from opscope.findings.subject import Flags, Subject

_WORTH_SAYING, _FEWEST, _OFTEN = 0.02, 3, 8
_LAYERS, _MODULE = "torch/nn/modules/", "torch/nn/modules/module.py"
_LOADER = "torch/utils/data/dataloader.py"


def _find_modules(subject: Subject) -> Evidence | None:
    """Layers created, or weights read from a file, in each call of a module or at a line that the
    program repeats."""
    making = subject.calls_of("", name="__init__")
    making &= subject.sums(subject.calls_of(_LAYERS, name="__init__")) > 0
    reading = subject.calls_of("torch/serialization.py", name="load")
    filling = subject.calls_of(_MODULE, name="load_state_dict")
    if 0 < reading.sum() <= 2 * filling.sum() <= 4 * reading.sum():  # weights, no samples
        making |= reading | filling
    making = subject.outermost_of(making)
    calls = subject.is_module_call | subject.calls_of(_MODULE, name="_call_impl")
    is_again, is_inside = _repeated(subject, making), making & subject.within(calls)
    rows = np.flatnonzero(is_again | is_inside)
    if len(rows) < _FEWEST:
        return None
    lost = "Their weights are random in every call, and no optimizer trains them."
    return Evidence(
        events=rows,
        explanation=(
            f"{len(rows):,} times, modules were created and initialised, or their weights read, "
            f"while the program used them: {time_text(subject.time_ns(rows))} in all threads. "
            f"{lost if is_inside.any() else ''}"
        ).rstrip(),
        saved_ns=subject.time_ns(rows),
        saved_by="making them, and reading their weights",
    )


def _repeated(subject: Subject, making: Flags) -> Flags:
    """Calls at lines that are reached often, during at least half of the time."""
    rows = np.flatnonzero(making)
    at = group_rows(*(column[rows] for column in subject.sites.at))
    first, last = np.full(len(at), np.iinfo(np.int64).max), np.zeros(len(at), np.int64)
    np.minimum.at(first, at.group, subject.start_ns[rows])
    np.maximum.at(last, at.group, subject.start_ns[rows])
    again = (at.count >= _OFTEN) & (last - first >= subject.wall_ns // 2)
    return subject.flags(rows[again[at.group]])[:-1]


def _find_workers(subject: Subject) -> Evidence | None:
    """DataLoader iterators that start worker processes."""
    starting = subject.calls_of("multiprocessing/process.py", name="start")
    loading = subject.inside(subject.calls_of(_LOADER, name="_get_iterator"))
    epochs = np.unique(loading[starting & (loading >= 0)])
    if len(epochs) < _FEWEST:
        return None
    ending = subject.outermost_of(subject.calls_of(_LOADER, name="_shutdown_workers"))
    asked = np.flatnonzero(subject.calls_of(_LOADER, name="__next__") & subject.is_main)
    # The first batch requested after each start of the workers.
    at = np.searchsorted(asked, epochs)
    first = np.unique(asked[at[at < len(asked)]])
    took = subject.time_ns(epochs) + subject.time_ns(ending)
    total = took + subject.time_ns(first)
    # With persistent workers, a first wait is as long as later ones.
    later = subject.duration_ns[np.setdiff1d(asked, first)]
    usual = int(np.median(later)) if len(later) else 0
    going = total - int(np.minimum(subject.duration_ns[first], usual).sum())
    # If a batch was requested before the first start, earlier workers had been started.
    once = 0 if len(asked) and asked[0] < epochs[0] else going // len(epochs)
    return Evidence(
        events=epochs,
        time_ns=total,
        explanation=(
            f"The DataLoader started its worker processes {len(epochs):,} times, once for every "
            f"epoch, and stopped them: {time_text(took)}. With the wait for their first batches "
            f"this is {subject.share(total)} of the time."
        ),
        saved_ns=going - once,
        saved_by=(
            f"all starts{' but one' if once else ''}, the stops, and the waits for a first "
            "batch beyond those for later ones"
        ),
    )


MODULES = Pattern(
    id="modules-made-again",
    status=Status.PYTHON,
    title="Layers are created, or weights are read, in every call",
    advice=(
        "Create modules and read their weights once, and keep them: in __init__, or in a "
        "dictionary by name (functools.lru_cache) if there are several."
    ),
    find=_find_modules,
    needs=(Needs.STACKS,),
    helped_by=(Needs.LIBRARIES,),
    worth_saying=_WORTH_SAYING,
)

WORKERS = Pattern(
    id="workers-started-again",
    status=Status.DATA_LOADING,
    title="DataLoader workers are restarted for every epoch",
    advice=(
        "Pass persistent_workers=True to the DataLoader and keep it; for data that is in memory, "
        "num_workers=0 is often faster."
    ),
    find=_find_workers,
    needs=(Needs.STACKS,),
    helped_by=(Needs.LIBRARIES,),
    worth_saying=_WORTH_SAYING,
)
