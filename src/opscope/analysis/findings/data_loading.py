"""Steps that wait for their data."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.pattern import Evidence, Pattern
from opscope.analysis.findings.subject import Subject, Values
from opscope.analysis.quantity_text import share_text, time_text

_IN_PROCESS = "enumerate(DataLoader)#_SingleProcessDataLoaderIter"
_BY_WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter"
_WORTH_SAYING = 0.01
_WORKERS = 2
"""What the advice begins with."""


def _loads(subject: Subject, name: str) -> Values:
    """Spans of one kind of loader, but the one inside another. Rows."""
    loading = subject.named_like(name)
    return np.flatnonzero(loading & (subject.inside(loading) < 0))


def _between(subject: Subject, loads: Values) -> Values:
    """Time from the end of each load to the start of the next. Shape (loads - 1,)."""
    gaps: Values = subject.start_ns[loads][1:] - subject.end_ns[loads][:-1]
    return np.maximum(gaps, 0)


def _find_in_process(subject: Subject) -> Evidence | None:
    loads = _loads(subject, _IN_PROCESS)
    total = int(subject.duration_ns[loads].sum())
    if len(loads) < 2 or total < _WORTH_SAYING * subject.wall_ns:
        return None
    took, step = subject.duration_ns[loads][1:], _between(subject, loads)
    hidden = took + step - np.maximum(step, took // _WORKERS)
    return Evidence(
        events=loads,
        time_ns=total,
        explanation=(
            f"The DataLoader made {len(loads):,} batches in the training process (num_workers=0), "
            f"{time_text(total // len(loads))} each: {share_text(total / subject.wall_ns)} of the "
            "time, in which nothing else happened."
        ),
        saved_ns=int(hidden.sum()),
        saved_by=(
            f"of every batch after the first, what {_WORKERS} worker processes would hide behind "
            "the steps or do at the same time; at most, as moving batches between processes and "
            "sharing the cores cost something too"
        ),
    )


def _find_stalls(subject: Subject) -> Evidence | None:
    loads = _loads(subject, _BY_WORKERS)
    waited = subject.duration_ns[loads]
    total = int(waited[1:].sum())  # nothing could be computed while the first was loaded
    if len(loads) < 2 or total < _WORTH_SAYING * subject.wall_ns:
        return None
    return Evidence(
        events=loads,
        time_ns=int(waited.sum()),
        explanation=(
            f"Workers load the data, and the program still waited for {len(loads):,} batches, "
            f"{time_text(int(waited.mean()))} each: they do not keep up."
        ),
        saved_ns=total,
        saved_by="the waiting for all batches but the first",
    )


IN_PROCESS = Pattern(
    id="synchronous-data-loading",
    title="Batches are loaded between the steps, not beside them",
    advice=(
        "Give the DataLoader worker processes: num_workers=2 to start with, persistent_workers="
        "True, and pin_memory=True for a GPU. If the data set fits in memory, make it one tensor "
        "and index whole batches instead of collating samples."
    ),
    find=_find_in_process,
    link="https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#enable-asynchronous-data-loading-and-augmentation",
)

STALLS = Pattern(
    id="data-loading-stalls",
    title="Steps wait for the DataLoader's workers",
    advice=(
        "Raise num_workers or prefetch_factor, make the transforms cheaper (decode once, store "
        "smaller images), and keep workers alive between epochs with persistent_workers=True."
    ),
    find=_find_stalls,
)
