"""Time that Python itself takes: collections, compilations, many small operators."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import share_text, time_text
from opscope.columns.schema import EventKind, RecordScope
from opscope.findings.pattern import Evidence, Pattern
from opscope.findings.patterns.launches import is_on_device
from opscope.findings.saving import share_of_one_thread
from opscope.findings.status import Status
from opscope.findings.subject import Flags, Subject, Values
from opscope.timeline.tree.event_tree import nearest_ancestor

_COMPILE = "_compile.compile_inner"
_REGION = "Torch-Compiled Region: "

_TINY = 3
"""An operator is tiny if it takes less than so many times the fixed cost."""

_MANY = 500
_COLLECT = "<built-in function collect>"
_LULL_NS = 100_000_000
"""Without an operator for so long, a program is starting, importing or waiting."""

_COLLECTIONS_WORTH_SAYING, _TINY_WORTH_SAYING = 0.005, 0.08


def _find_collections(subject: Subject) -> Evidence | None:
    pauses = _while_working(subject, np.flatnonzero(subject.events["kind"] == EventKind.GC_PAUSE))
    took = subject.duration_ns[pauses]
    total = int(took.sum())
    if not len(pauses) or total < _COLLECTIONS_WORTH_SAYING * subject.wall_ns:
        return None
    again = _comes_again(subject, pauses)
    saved, alone = int(took[again].sum()) - _once(subject, pauses[again]), int(took[~again].sum())
    return Evidence(
        events=pauses,
        time_ns=total,
        explanation=(
            f"Python's garbage collector stopped the program {len(pauses):,} times, for "
            f"{time_text(total)} in all and {time_text(int(took.max()))} at the longest. "
            "Nothing else runs meanwhile, and in a distributed job every other rank waits. Pauses "
            "while the program imported or waited, with no operator in sight, are not counted."
        ),
        saved_ns=saved,
        saved_by="the pauses themselves"
        + (
            f", without the {time_text(alone)} of one that came only once: how often one of its "
            "generation comes, a longer recording shows"
            if alone
            else ""
        ),
    )


def _once(subject: Subject, pauses: Values) -> int:
    """An ordinary one of those that the program asked for: it may still want one, at the end."""
    asked = nearest_ancestor(subject.parent, subject.named_like(_COLLECT))[pauses] >= 0
    took = subject.duration_ns[pauses[asked]]
    return int(np.median(took)) if len(took) else 0


def _comes_again(subject: Subject, pauses: Values) -> Flags:
    """Which of these pauses are not the only one of their generation: one alone is no rate."""
    name = subject.events["name"][pauses]
    generation, count = np.unique(name, return_counts=True)
    return np.asarray(np.isin(name, generation[count > 1]))


def _while_working(subject: Subject, pauses: Values) -> Values:
    """The pauses in no import, inside an operator or with one less than a lull away.

    Shape (kept pauses,).
    """
    importing = nearest_ancestor(subject.parent, subject.calls_of("importlib._bootstrap>")) >= 0
    pauses = pauses[~importing[pauses]]
    rows = subject.outermost
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
    compiling = subject.named_like(_COMPILE)
    compiled = np.flatnonzero(compiling & (subject.inside(compiling) < 0))
    if not len(compiled):
        return None
    total = int(subject.duration_ns[compiled].sum())
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
        time_ns=total,
        explanation=(
            f"torch.compile compiled {len(compiled):,} times while this was recorded, "
            f"{time_text(total)} in all.{which}"
        ),
        saved_ns=total,
        saved_by="the compilations; those of a first call are only moved to before the recording",
    )


def _find_tiny_operators(subject: Subject) -> Evidence | None:
    fixed, calls = subject.fixed_cost_ns, _called_by_the_program(subject)
    calls = calls[~is_on_device(subject, calls)]
    tiny = calls[subject.duration_ns[calls] <= _TINY * fixed]
    between = _from_one_to_the_next(subject, tiny)
    each = max(int(between.mean()) if len(between) else 0, fixed)
    cost = int(each * len(tiny) * share_of_one_thread(subject, tiny))
    if len(tiny) < _MANY or cost < _TINY_WORTH_SAYING * subject.wall_ns:
        return None
    return Evidence(
        events=tiny,
        time_ns=int(subject.duration_ns[tiny].sum()),
        explanation=(
            f"{len(tiny):,} of {len(calls):,} operators take at most {time_text(_TINY * fixed)}, "
            f"where getting from one operator to the next takes Python {time_text(fixed)} at its "
            f"fastest and {time_text(each)} with these: {share_text(cost / subject.wall_ns)} of "
            "the time goes into calling them."
        ),
        saved_ns=int(fixed * len(tiny)),
        saved_by=(
            f"the cost of calling them alone, {time_text(fixed)} each, as of the fastest: what "
            "they take beyond that they compute, and it remains; operators that are fused are "
            "called once, and a rewrite that needs fewer of them saves more"
        ),
    )


def _called_by_the_program(subject: Subject) -> Values:
    """Outermost operators, without what autograd calls from C++ that the program did not call.

    The layers of a recurrent network are one call of the program's; autograd goes through all of
    what that did. It also stores a gradient for each parameter.
    """
    forward = subject.sites.source
    inner = np.flatnonzero(
        (subject.events["scope"] == RecordScope.BACKWARD_FUNCTION)
        & (forward >= 0) & (subject.operator_parent[forward] >= 0)
        & (subject.events["scope"][forward] == RecordScope.FUNCTION)
    )  # fmt: skip
    is_inner = np.zeros(len(subject.parent) + 1, dtype=np.bool_)
    is_inner[subject.outermost_operator[inner]] = True
    is_inner[:-1] |= subject.named_like("AccumulateGrad")
    rows = subject.outermost
    return np.asarray(rows[~is_inner[rows]], dtype=np.int64)


def _from_one_to_the_next(subject: Subject, tiny: Values) -> Values:
    """The time from the start of each tiny operator to that of the next on its thread.

    Of what is longer, as much counts as still is tiny.
    """
    rows, thread = subject.outermost, subject.events["thread"]
    order = rows[np.lexsort((rows, thread[rows]))]
    apart = np.diff(subject.start_ns[order])[np.diff(thread[order]) == 0]
    begins = order[:-1][np.diff(thread[order]) == 0]
    is_tiny = np.isin(begins, tiny)
    between: Values = np.minimum(apart[is_tiny], _TINY * subject.fixed_cost_ns)
    return between


COLLECTIONS = Pattern(
    id="garbage-collections",
    status=Status.PYTHON,
    title="Garbage collections interrupt the program",
    advice=(
        "Call gc.collect() and gc.freeze() once after set-up; then gc.disable() and collect at a "
        "point of your choice, the same on all ranks (every N steps, or between epochs)."
    ),
    find=_find_collections,
)

RECOMPILATIONS = Pattern(
    id="compilations",
    status=Status.PYTHON,
    title="torch.compile compiled during the recording",
    advice=(
        "Warm up before recording (a schedule with more wait steps). If it compiles again and "
        "again, run with TORCH_LOGS=recompiles to see why; mark sizes that change with "
        "torch.compile(dynamic=True) or torch._dynamo.mark_dynamic."
    ),
    find=_find_recompilations,
)

TINY_OPERATORS = Pattern(
    id="many-small-operators",
    status=Status.SMALL_OPERATORS,
    title="The program calls very many very small operators",
    advice=(
        "torch.compile(model) fuses them; so do larger batches, foreach/fused optimizers and "
        "library calls in place of hand-written formulas."
    ),
    find=_find_tiny_operators,
    is_general=True,
    link="https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html#fuse-operations",
)
