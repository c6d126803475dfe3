"""What is set up again and again: layers, and worker processes."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import share_text, time_text
from opscope.columns.schema import EventKind
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.status import Status
from opscope.findings.subject import Flags, Subject, Values
from opscope.timeline.tree.event_tree import nearest_ancestor

_WORTH_SAYING, _FEWEST = 0.02, 3
_LAYERS, _MADE = "torch/nn/modules/", "__init__"
_LOADER = "torch/utils/data/dataloader.py"
_PROCESS = "multiprocessing/process.py"


def _find_modules(subject: Subject) -> Evidence | None:
    """Layers made while a module runs: what they learn is lost with them."""
    making = subject.calls_of(_LAYERS, _MADE)
    making &= nearest_ancestor(subject.parent, making) < 0
    in_module = nearest_ancestor(subject.parent, _module_calls(subject)) >= 0
    rows = np.flatnonzero(making & in_module)
    total = int(subject.duration_ns[rows].sum())
    if len(rows) < _FEWEST or total < _WORTH_SAYING * subject.wall_ns:
        return None
    return Evidence(
        events=rows,
        time_ns=total,
        explanation=(
            f"{len(rows):,} modules were made, and filled with random weights, while another one "
            f"ran: {share_text(total / subject.wall_ns)} of the time. Their weights are new in "
            "every call, and no optimizer knows them."
        ),
        saved_ns=total,
        saved_by="making them",
    )


def _module_calls(subject: Subject) -> Flags:
    forward = subject.calls_of("torch/nn/modules/module.py", "_call_impl")
    return np.asarray((subject.events["kind"] == EventKind.MODULE_CALL) | forward)


def _find_workers(subject: Subject) -> Evidence | None:
    """Iterators of a DataLoader that start processes, each anew."""
    starting = subject.calls_of(_PROCESS, "start")
    loading = subject.calls_of(_LOADER, "_get_iterator")
    of_loader = np.zeros(len(loading), dtype=np.bool_)
    around = nearest_ancestor(subject.parent, loading)[np.flatnonzero(starting)]
    of_loader[around[around >= 0]] = True
    epochs = np.flatnonzero(of_loader)
    if len(epochs) < _FEWEST:
        return None
    ending = subject.calls_of(_LOADER, "_shutdown_workers")
    ending &= nearest_ancestor(subject.parent, ending) < 0
    asked = np.flatnonzero(subject.calls_of(_LOADER, "__next__") & subject.is_main)
    first = _first_waits(asked, epochs)
    took = int(subject.duration_ns[epochs].sum() + subject.duration_ns[ending].sum())
    total = took + int(subject.duration_ns[first].sum())
    if total < _WORTH_SAYING * subject.wall_ns:
        return None
    going = total - _later_waits_ns(subject, asked, first)
    # Whoever asks for a batch before all of these had started its workers before.
    once = 0 if len(asked) and asked[0] < epochs[0] else going // len(epochs)
    return Evidence(
        events=epochs,
        time_ns=total,
        explanation=(
            f"The DataLoader started its worker processes {len(epochs):,} times, once for every "
            f"pass over the data, and ended them: {time_text(took)}, and then waited for their "
            f"first batches: {share_text(total / subject.wall_ns)} of the time in all."
        ),
        saved_ns=going - once,
        saved_by=(
            f"all starts{' but one' if once else ''}, the ends, and the waits for a first batch "
            "beyond those for later ones"
        ),
    )


def _first_waits(asked: Values, epochs: Values) -> Values:
    """The first batch asked for after each start of the workers, where there is one."""
    at = np.searchsorted(asked, epochs)
    return np.unique(asked[at[at < len(asked)]])


def _later_waits_ns(subject: Subject, asked: Values, first: Values) -> int:
    """What of the first waits workers take that are there already, by the median of later ones."""
    later = subject.duration_ns[np.setdiff1d(asked, first)]
    if not len(later):
        return 0
    return int(np.minimum(subject.duration_ns[first], int(np.median(later))).sum())


MODULES = Pattern(
    id="modules-made-again",
    status=Status.PYTHON,
    title="Layers are made anew in every call",
    advice="Make them once, in __init__, and call them in forward.",
    find=_find_modules,
    needs=(Needs.STACKS,),
    helped_by=(Needs.LIBRARIES,),
)

WORKERS = Pattern(
    id="workers-started-again",
    status=Status.DATA_LOADING,
    title="Worker processes are started for every pass over the data",
    advice=(
        "Pass persistent_workers=True to the DataLoader and keep it; for data that is in memory, "
        "num_workers=0 is often faster."
    ),
    find=_find_workers,
    needs=(Needs.STACKS,),
    helped_by=(Needs.LIBRARIES,),
)
