"""Steps that wait for data."""

from __future__ import annotations

import numpy as np

from opscope.analysis.account.process_waits import LOADED_BY_WORKERS
from opscope.base.quantity_text import time_text
from opscope.findings.own_places import places_inside
from opscope.findings.pattern import Evidence, Pattern
from opscope.findings.program_time import computed_ns, waited_share
from opscope.findings.status import Status
from opscope.findings.subject import Subject, Values
from opscope.timeline.period import wall_bounds

_IN_PROCESS = "enumerate(DataLoader)#_SingleProcessDataLoaderIter"
_WORTH_SAYING, _WORKERS = 0.01, 2
"""Number of workers in the advice."""

_OF_TOLIST = ("aten::resolve_conj", "aten::resolve_neg")
_FEWEST_PASSES, _OF_BATCHES = 5, 0.75
"""Fewest epochs, and least share of batches that begin one. With epochs of one batch it is a half,
because the program also requests a second one."""

_LONG, _FEW, _MOSTLY = 10, 0.3, 0.8
"""Long waits: minimum multiple of the median, maximum share of batches, minimum of waiting."""

_OWN = 1.5  # CPU time of workers in waits for a CPU; below it, other programs may need the CPUs

_FEW_WAITS = (
    "If these are the first batches of an epoch, keep the workers alive with "
    "persistent_workers=True. Otherwise find out why these batches are slow."
)

_MANY_WORKERS = (
    "Make samples cheaper, as more workers would get no CPU: decode or load once and cache, crop "
    "before other transforms, store smaller samples. `opscope run --children` shows their lines."
)


def _loads(subject: Subject, name: str) -> Values:
    """Rows of outermost spans whose name contains ``name``."""
    return np.flatnonzero(subject.outermost_of(subject.name_contains(name)))


def _shuffling_ns(subject: Subject, loads: Values) -> Values:
    """Time that each load takes to shuffle the data set and to free the order. Shape (loads,).

    Zeros unless nearly every load begins an epoch.
    """
    around = subject.inside(subject.flags(loads))
    shuffles = np.flatnonzero(subject.named("aten::randperm") & (around >= 0))
    last = np.zeros(len(around), dtype=np.int64)
    np.maximum.at(last, around[shuffles], shuffles)
    sampling = (subject.is_outermost & ~subject.named(*_OF_TOLIST)) | subject.sites.defined_here
    rows = np.flatnonzero(sampling & (around >= 0))
    rows = rows[(rows > last[around[rows]]) & (last[around[rows]] > 0)]
    first = subject.end_ns.copy()
    np.minimum.at(first, around[rows], subject.start_ns[rows])
    begins = subject.flags(around[rows])[loads]  # a load that ends an epoch shuffles, too
    if begins.sum() < max(_FEWEST_PASSES, _OF_BATCHES * len(loads)):
        return np.zeros(len(loads), dtype=np.int64)
    shuffling = np.where(begins, first[loads] - subject.start_ns[loads], 0)
    # The iterator is freed when the program's call has returned.
    is_call = subject.line_calls.row >= 0
    outer = subject.inside(is_call)[loads]
    ends = subject.end_ns[np.where(is_call[loads] | (outer < 0), loads, outer)]
    loading = subject.calls_of("torch/utils/data/")
    others = subject.is_main & ~loading & ~subject.within(loading)
    starts = np.append(np.sort(subject.start_ns[others]), ends.max())
    after = starts[np.searchsorted(starts[:-1], ends)] - ends
    return shuffling + np.clip(after, 0, shuffling)


def _find_restarted_loaders(subject: Subject) -> Evidence | None:
    """Epochs over shuffled data of which the program takes only one batch."""
    loads = _loads(subject, _IN_PROCESS)
    took = _shuffling_ns(subject, loads)
    passes, total = loads[took > 0], int(took.sum())
    if total < _WORTH_SAYING * subject.wall_ns or not len(passes):
        return None
    return Evidence(
        events=passes,
        event_time_ns=took[took > 0],
        explanation=(
            f"{len(passes):,} of {len(loads):,} batches were the first of a new epoch: for each "
            "of them the DataLoader shuffled the whole data set, "
            f"{time_text(total // len(passes))} each, {subject.share(total)} of the time."
        ),
        saved_ns=total - total // len(passes),
        saved_by="shuffling up to the first sample, and freeing the order, for all epochs but one",
    )


def _find_in_process(subject: Subject) -> Evidence | None:
    loads = _loads(subject, _IN_PROCESS)
    if len(loads) < 2 or _find_restarted_loaders(subject) is not None:
        return None  # workers would be started for every batch
    took, total = subject.duration_ns[loads][1:], subject.time_ns(loads)
    step = np.maximum(subject.start_ns[loads][1:] - subject.end_ns[loads][:-1], 0)
    hidden = took + step - np.maximum(step, took // _WORKERS)
    loops = subject.sites.places(loads, subject.duration_ns[loads], with_modules=False)
    inside = [one for one in places_inside(subject, loads) if (*loops, one)[0].line != one.line]
    return Evidence(
        events=loads,
        places=(*inside[:1], *loops),
        explanation=(
            f"The DataLoader made {len(loads):,} batches in the training process "
            f"(num_workers=0), {time_text(total // len(loads))} each: {subject.share(total)} of "
            "the time, while training waited."
        ),
        saved_ns=int(hidden.sum()),
        saved_by=(
            f"the part of each batch after the first that {_WORKERS} worker processes would "
            "overlap with the steps or with each other; an upper bound, as moving batches "
            "between processes and sharing cores has a cost"
        ),
    )


def _find_stalls(subject: Subject) -> Evidence | None:
    loads = _loads(subject, LOADED_BY_WORKERS)
    if len(loads) < 2:
        return None
    waited = subject.duration_ns[loads]
    later = waited[1:]  # nothing could be computed while the first was loaded
    long = later > _LONG * max(int(np.median(later)), 1)
    are_few = long.any() and long.sum() <= _FEW * len(later)
    delayed_ns = _delayed_by_workers_ns(subject)
    saved_ns = int(later.sum())
    if delayed_ns > _FEW * (subject.wall_ns + delayed_ns):
        # The time of the program has no waits for a CPU: as a share of the time with them.
        lost_ns = saved_ns + delayed_ns
        saved_ns = lost_ns * subject.wall_ns // (subject.wall_ns + delayed_ns)
        said = (
            f"The DataLoader's workers need the CPUs: the program waited {time_text(delayed_ns)} "
            f"for a CPU, and {time_text(lost_ns - delayed_ns)} for batches."
        )
        advice = _MANY_WORKERS
    elif are_few and later[long].sum() >= _MOSTLY * later.sum():
        said = (
            f"The workers keep up, except for {int(long.sum()):,} of {len(loads):,} batches, "
            f"for which the program waited {time_text(int(later[long].mean()))} for on average."
        )
        advice = _FEW_WAITS
    else:
        said = (
            f"Workers load the data, and the program still waited for {len(loads):,} batches, "
            f"{time_text(int(waited.mean()))} each: they do not keep up."
        )
        advice = ""
    return Evidence(
        events=loads,
        explanation=said,
        advice=advice,
        saved_ns=saved_ns,
        saved_by="the waiting time for all batches but the first, and for CPUs that workers need",
    )


def _delayed_by_workers_ns(subject: Subject) -> int:
    """Time in which the main thread waited for a CPU, if the program's other processes used it."""
    first, last = wall_bounds(subject.recorded)
    delayed_ns = int((waited_share(subject.recorded) or 0.0) * (last - first))
    own_ns = sum(took for number, took in computed_ns(subject.recorded).items() if number < 0)
    return delayed_ns if own_ns >= _OWN * delayed_ns else 0


IN_PROCESS = Pattern(
    id="synchronous-data-loading",
    status=Status.DATA_LOADING,
    title="Data loading blocks training (num_workers=0)",
    advice=(
        "Set num_workers=2 to start with, persistent_workers=True, and pin_memory=True for a "
        "GPU. If the data set fits in memory, make it one tensor and index whole batches "
        "instead of collating samples."
    ),
    find=_find_in_process,
    worth_saying=_WORTH_SAYING,
    link="https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#enable-asynchronous-data-loading-and-augmentation",
)

BEGUN_AGAIN = Pattern(
    id="data-shuffled-again",
    status=Status.DATA_LOADING,
    title="The DataLoader is restarted for every batch",
    advice=(
        "Keep the iterator: use a for loop over the loader, or call iter(loader) once per "
        "epoch and next() for each batch. For random batches without epochs, index the data "
        "set with torch.randint."
    ),
    find=_find_restarted_loaders,
)

STALLS = Pattern(
    id="data-loading-stalls",
    status=Status.DATA_LOADING,
    title="Steps wait for the DataLoader's workers",
    advice=(
        "Raise num_workers or prefetch_factor, make the transforms cheaper (decode once, store "
        "smaller images), and keep workers alive between epochs with persistent_workers=True."
    ),
    find=_find_stalls,
    worth_saying=_WORTH_SAYING,
)
