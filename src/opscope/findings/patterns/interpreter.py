"""Time that Python itself takes: collections, compilations, many small operators."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import time_text
from opscope.columns.causes import Cause
from opscope.columns.schema import EventKind, RecordScope
from opscope.findings.loop_lines import part_work_ns
from opscope.findings.pattern import Evidence, Pattern
from opscope.findings.patterns.launches import is_on_device
from opscope.findings.saving import share_of_one_thread
from opscope.findings.status import Status
from opscope.findings.subject import MOST_FIXED_COST_NS, Flags, Subject, Values
from opscope.findings.time_split import TimeSplit

_COMPILE, _REGION = "_compile.compile_inner", "Torch-Compiled Region: "
_COLLECT = "<built-in function collect>"

_MANY = 100  # fewest small operators: with fewer, call overhead is not the problem
_LULL_NS = 100_000_000  # a program without operators for this long starts, imports or waits

_COLLECTIONS_WORTH_SAYING, _TINY_WORTH_SAYING, _MOSTLY = 0.005, 0.2, 0.5


def _find_collections(subject: Subject) -> Evidence | None:
    pauses = _while_working(subject, np.flatnonzero(subject.events["kind"] == EventKind.GC_PAUSE))
    took = subject.duration_ns[pauses]
    total = int(took.sum())
    if not len(pauses) or total < _COLLECTIONS_WORTH_SAYING * subject.wall_ns:
        return None
    # A single collection of a generation gives no rate.
    generation, count = np.unique(subject.events["name"][pauses], return_counts=True)
    again = np.isin(subject.events["name"][pauses], generation[count > 1])
    # The program may still need one of its own gc.collect() calls.
    asked = took[again & subject.within(subject.name_contains(_COLLECT))[pauses]]
    once = int(np.median(asked)) if len(asked) else 0
    alone = int(took[~again].sum())
    return Evidence(
        events=pauses,
        explanation=(
            f"Python's garbage collector stopped the program {len(pauses):,} times, "
            f"{time_text(total)} in total, {time_text(int(took.max()))} at the longest. In a "
            "distributed job all other ranks wait for it. Pauses during imports and waits, "
            "without operators around, are not counted."
        ),
        saved_ns=int(took[again].sum()) - once,
        saved_by="the pauses themselves"
        + (
            f", without {time_text(alone)} of a collection that ran once; a longer recording "
            "shows how often it repeats"
            if alone
            else ""
        ),
    )


def _while_working(subject: Subject, pauses: Values) -> Values:
    """Rows of pauses outside imports, and in or near an operator (``_LULL_NS``)."""
    importing = subject.within(subject.calls_of("importlib._bootstrap>"))
    pauses, rows = pauses[~importing[pauses]], subject.outermost
    if not len(rows):
        return pauses
    starts, busy_until = subject.start_ns[rows], np.maximum.accumulate(subject.end_ns[rows])
    following = np.searchsorted(starts, subject.start_ns[pauses], "right")
    begin = np.append(subject.start_ns.min(), busy_until)[following]
    end = np.append(starts, subject.end_ns.max())[following]
    paused_ns = np.bincount(following, weights=subject.duration_ns[pauses])[following]
    near: Values = pauses[end - begin - paused_ns < _LULL_NS]
    return near


def _find_recompilations(subject: Subject) -> Evidence | None:
    compiled = np.flatnonzero(subject.outermost_of(subject.name_contains(_COMPILE)))
    if not len(compiled):
        return None
    total = subject.time_ns(compiled)
    again = sorted(
        text.removeprefix(_REGION)
        for text in subject.names_used
        if text.startswith(_REGION) and not text.endswith("/0")
    )
    which = (
        f" Code compiled more than once, as frame/version: {', '.join(again[:5])}." if again else ""
    )
    return Evidence(
        events=compiled,
        explanation=(
            f"torch.compile compiled {len(compiled):,} times during the recording, "
            f"{time_text(total)} in total.{which}"
        ),
        saved_ns=total,
        saved_by="the compilations; those of a first call only move to before the recording",
    )


def _find_tiny_operators(subject: Subject) -> Evidence | None:
    calls = np.flatnonzero(_called_by_the_program(subject))
    calls = calls[~is_on_device(subject, calls)]
    took, calling = _taking_and_calling_ns(subject, calls)
    is_tiny = 2 * calling > took
    tiny, calling = calls[is_tiny], calling[is_tiny]
    total = int(calling.sum())
    cost = int(total * share_of_one_thread(subject, tiny))
    if len(tiny) < _MANY or cost < _TINY_WORTH_SAYING * subject.wall_ns:
        return None
    return Evidence(
        events=tiny,
        event_time_ns=calling,
        explanation=(
            f"{len(tiny):,} of {len(calls):,} operators compute for less time than it takes to "
            f"call them, {time_text(int(np.median(calling)))} each in the median: "
            f"{subject.share(cost)} of the time is call overhead, in torch and in Python."
        ),
        saved_ns=_all_but_computing_ns(subject) if _gets_one_sample(subject) else total // 2,
        saved_by=(
            "half of the call overhead, as with batches of twice the size; where layers get one "
            "sample at a time, all of torch's time but computing, as with large ones"
        ),
    )


def _all_but_computing_ns(subject: Subject) -> int:
    """Time of torch beyond computing, without data loading, which each sample needs."""
    split = subject.once(TimeSplit)
    outside = int((split.outside_ns + split.own_ns).sum())
    loading = subject.time_ns(subject.outermost_of(subject.name_contains("enumerate(DataLoader)")))
    computing = int(np.maximum(part_work_ns(subject), 0)[subject.is_main].sum())
    return max(subject.wall_ns - outside - loading - computing, 0)


def _gets_one_sample(subject: Subject) -> bool:
    """Whether most calls of layers get a batch of one."""
    layers = subject.is_outermost & (
        subject.named("aten::linear") | subject.name_contains("::conv")
    )
    given, sizes = subject.tensor_argument(0)[layers], subject.trace.table("tensors").lists("sizes")
    given = given[given >= 0]
    begin, length = sizes.offsets[given], np.diff(sizes.offsets)[given]
    first = np.append(sizes.values, 0)[np.where(length > 1, begin, -1)]
    alone = (length == 1) | (first == 1)
    return len(given) > 0 and float(alone.mean()) > _MOSTLY


def _taking_and_calling_ns(subject: Subject, calls: Values) -> tuple[Values, Values]:
    """Time of each operator since the previous one, and its call overhead. Shapes as ``calls``.

    The time in between is limited to the cost of a Python call, and the overhead inside an operator
    to that of calling its inner operators.
    """
    rows, thread = subject.outermost, subject.events["thread"]
    order = rows[np.lexsort((rows, thread[rows]))]
    since, follows = np.zeros(len(thread), dtype=np.int64), np.diff(thread[order]) == 0
    since[order[1:]] = (subject.start_ns[order[1:]] - subject.end_ns[order[:-1]]) * follows
    since, duration = np.clip(since, 0, MOST_FIXED_COST_NS)[calls], subject.duration_ns[calls]
    inner = subject.sums(subject.is_operator)[calls] * subject.call_cost_ns
    calling = np.minimum(np.maximum(duration - part_work_ns(subject)[calls], 0), inner)
    return since + duration, since + calling


def _called_by_the_program(subject: Subject) -> Flags:
    """Outermost operators that the program called, without those that autograd adds from C++.

    A recurrent network is one call of the program, but autograd runs a node for each inner
    operator. It also stores a gradient for each parameter.
    """
    forward, scope = subject.sites.source, subject.events["scope"]
    inner = (scope == RecordScope.BACKWARD_FUNCTION) & (forward >= 0)
    inner &= (subject.operator_parent[forward] >= 0) & (scope[forward] == RecordScope.FUNCTION)
    is_inner = subject.flags(subject.outermost_operator[inner])[:-1]
    return subject.is_outermost & ~is_inner & ~subject.name_contains("AccumulateGrad")


COLLECTIONS = Pattern(
    id="garbage-collections",
    status=Status.PYTHON,
    cause=Cause.COLLECTION,
    title="Garbage collections interrupt the program",
    advice=(
        "Call gc.collect() and gc.freeze() once after set-up; then gc.disable() and collect at "
        "fixed points, the same on all ranks (every N steps, or between epochs)."
    ),
    find=_find_collections,
)

RECOMPILATIONS = Pattern(
    id="compilations",
    status=Status.PYTHON,
    title="torch.compile compiled during the recording",
    advice=(
        "Warm up before recording (a schedule with more wait steps). For repeated "
        "compilations, TORCH_LOGS=recompiles prints the reasons; mark varying sizes with "
        "torch.compile(dynamic=True) or torch._dynamo.mark_dynamic."
    ),
    find=_find_recompilations,
)

TINY_OPERATORS = Pattern(
    id="many-small-operators",
    status=Status.SMALL_OPERATORS,
    cause=Cause.DISPATCH,
    title="Many small operators: call overhead dominates",
    advice=(
        "Use larger batches (more samples, environments or tasks at once), torch.compile(model), "
        "foreach/fused optimizers, and library calls instead of hand-written formulas."
    ),
    find=_find_tiny_operators,
    is_general=True,
    link="https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#fuse-operations",
)
