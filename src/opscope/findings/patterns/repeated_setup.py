"""Repeated set-up of layers and worker processes."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import time_text
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.status import Status
from opscope.findings.subject import Subject

_WORTH_SAYING, _FEWEST = 0.02, 3
_LAYERS, _LOADER = "torch/nn/modules/", "torch/utils/data/dataloader.py"


def _find_modules(subject: Subject) -> Evidence | None:
    """Layers created during the call of a module; their weights are lost afterwards."""
    forward = subject.calls_of("torch/nn/modules/module.py", name="_call_impl")
    making = subject.outermost_of(subject.calls_of(_LAYERS, name="__init__"))
    rows = np.flatnonzero(making & subject.within(subject.is_module_call | forward))
    if len(rows) < _FEWEST:
        return None
    return Evidence(
        events=rows,
        explanation=(
            f"{len(rows):,} modules were created and initialised during the call of another "
            f"module: {subject.share(subject.time_ns(rows))} of the time. Their weights are "
            "random in every call, and no optimizer trains them."
        ),
        saved_ns=subject.time_ns(rows),
        saved_by="making them",
    )


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
    title="Layers are created in every call",
    advice="Create them once, in __init__, and call them in forward.",
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
