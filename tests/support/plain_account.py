"""The account of time the plain way: every piece of time a row of columns, which NumPy goes over.

What native code makes of a trace is compared with this.
"""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np

from opscope.analysis.account.helper_threads import passes_of_engine, transfers
from opscope.analysis.account.pieces import AS_AROUND, _of_name, main_threads, thread_of_operators
from opscope.analysis.account.processor import intervals_by_thread
from opscope.analysis.recording_cost import cost_of_an_event_ns
from opscope.columns.causes import WAITS, Cause
from opscope.columns.codes import EventKind, RecordScope, WaitsFor
from opscope.timeline.steps import program_steps
from opscope.timeline.tree.event_tree import nearest_ancestor
from opscope.timeline.tree.frame_text import event_texts, is_python
from opscope.timeline.tree.line_nesting import line_nesting
from support.plain_lay_over import OffProcessor, lay_over
from support.plain_own_times import plain_segments

_BLOCKED_IN = {
    WaitsFor.NOTHING: Cause.UNKNOWN,
    WaitsFor.GIL: Cause.GIL,
    WaitsFor.LOCK: Cause.LOCK,
    WaitsFor.TIMER: Cause.TIMER,
    WaitsFor.READINESS: Cause.IO,
    WaitsFor.TRANSFER: Cause.IO,
    WaitsFor.PROCESS: Cause.LOCK,
    WaitsFor.OTHER: Cause.UNKNOWN,
    WaitsFor.DISK: Cause.IO,
}
_OF_CALL = np.array([_BLOCKED_IN[WaitsFor(code)] for code in range(len(WaitsFor))], dtype=np.int64)

_FOR_ANOTHER = (Cause.LOCK, Cause.UNKNOWN)

_LASTING = (Cause.COLLECTION, Cause.IMPORT, Cause.COMPILATION, Cause.DEVICE)

_SPREADS = (Cause.COLLECTION, Cause.IMPORT, Cause.COMPILATION, Cause.COLLECTIVE, Cause.LOADER)
"""Causes of an event that are those of what runs in it too, as far as the sets below say."""

_WAITS = (Cause.LOCK, Cause.IO, Cause.TIMER)


_SHORT_GAP_NS = 1_000_000
_FEWEST_LEAVES = 50
_FASTEST_PERCENTILE = 5
_MOST_DISPATCH_NS = 5_000


def plain_sums(trace, period):
    """Of each thread the time by step and cause, and its error; the main thread; and its pieces."""
    divided = _divide(trace, period)
    pieces, parts = divided["pieces"], _parts(divided)
    sums = list(_sums_of_threads(divided, parts))
    main = _main(divided["trace"], pieces)
    is_own = pieces.thread == main
    columns = []
    for cause, time_ns, _ in parts:
        rows = np.flatnonzero(is_own & (time_ns > 0))
        start = pieces.start_ns[rows]
        columns.append(
            (pieces.step[rows], pieces.event[rows], cause[rows], time_ns[rows], start,
             start + pieces.length_ns[rows])
        )  # fmt: skip
    return sums, main, [np.concatenate(column) for column in zip(*columns, strict=True)]


def plain_causes(trace, around):
    """The cause of the own time of every event, ``AS_AROUND`` where it has none of its own."""
    label, texts = event_texts(trace)
    kind = trace.events["kind"]
    by_name = np.array([_of_name(text) for text in texts] or [AS_AROUND], dtype=np.int8)
    cause = _of_kinds(trace, around)
    named = by_name[label] if len(label) else by_name[:0]
    cause = np.where(named != AS_AROUND, named, cause)
    cause[kind == EventKind.GC_PAUSE] = Cause.COLLECTION
    return _with_surroundings(cause, kind, around)


def _of_kinds(trace, around):
    """By kind: nodes of autograd and C functions that call operators are torch around them.

    Operators that call others may still do most of the work: ``aten::mm`` calls helpers first.
    """
    events = trace.events
    kind = events["kind"]
    is_operator = kind == EventKind.OPERATOR
    calls_operators = np.zeros(len(kind), dtype=np.bool_)
    inner = around[is_operator]
    calls_operators[inner[inner >= 0]] = True
    cause = np.full(len(kind), AS_AROUND, dtype=np.int8)
    cause[is_python(events)] = Cause.PYTHON
    cause[np.isin(kind, (EventKind.TASK_RUN, EventKind.COMPILED_GRAPH))] = Cause.PYTHON
    cause[(kind == EventKind.C_CALL) & calls_operators] = Cause.DISPATCH
    cause[kind == EventKind.RUNTIME_CALL] = Cause.DISPATCH
    cause[is_operator] = Cause.OPERATOR
    is_node = events["scope"] == RecordScope.BACKWARD_FUNCTION
    cause[is_operator & (_evaluates_nodes(trace) | (is_node & calls_operators))] = Cause.DISPATCH
    return cause


def _evaluates_nodes(trace):
    """The autograd engine's own spans around each node."""
    names = [text.startswith("autograd::engine::") for text in trace.names]
    return np.array([*names, False])[trace.events["name"]]


def _with_surroundings(cause, kind, around):
    """What runs in an import is part of it, waiting in a loader is waiting for it, and so on."""
    inside = {one: nearest_ancestor(around, cause == one) >= 0 for one in _SPREADS}
    for one in (Cause.COMPILATION, Cause.IMPORT, Cause.COLLECTION):
        cause[inside[one] & (cause != Cause.COLLECTION)] = one
    waiting = np.isin(cause, _WAITS)
    cause[waiting & inside[Cause.LOADER]] = Cause.LOADER
    passive = waiting | np.isin(cause, (Cause.PYTHON, Cause.DISPATCH, Cause.BACKWARD))
    cause[passive & inside[Cause.COLLECTIVE]] = Cause.COLLECTIVE
    # Annotations and steps are as the function that they are in.
    known = nearest_ancestor(around, cause != AS_AROUND).astype(np.int64)
    bare = (cause == AS_AROUND) & (known >= 0)
    taken = cause[known[bare]]
    cause[bare] = np.where(taken == Cause.OPERATOR, Cause.DISPATCH, taken)
    return cause


def _divide(whole, period):
    trace = period.trace
    steps, _ = program_steps(trace)
    wall_ns = period.wall_ns if len(trace.events) or len(trace.table("gpu")) else 0
    bounds = (period.start_ns, period.start_ns + wall_ns)
    stretches, passes = transfers(trace), passes_of_engine(trace)
    samples = dict(intervals_by_thread(whole, stretches))
    edges = [steps.start_ns, steps.end_ns, stretches.edges_ns, passes.edges_ns]
    edges = np.unique(np.concatenate(edges))
    cuts = {key: np.append(one.start_ns, one.end_ns) for key, one in samples.items()}
    pieces = _pieces_of(trace, steps, bounds, {**cuts, -1: edges.astype(np.int64)}, passes)
    in_pass = passes.contain(pieces.start_ns)
    in_transfer = stretches.contain(pieces.start_ns)
    off = _off_processor(pieces, samples, in_transfer)
    return {"trace": trace, "steps": steps, "pieces": pieces, "off": off,
            "in_transfer": in_transfer, "in_pass": in_pass}  # fmt: skip


def _pieces_of(trace, steps, bounds, cuts, passes):
    nested = line_nesting(trace)
    thread, start, length, event, is_first = plain_segments(trace, *bounds, cuts)
    in_pass = passes.contain(start)
    causes = plain_causes(trace, nested.around.astype(np.int64))
    cause = np.where(event >= 0, causes[np.maximum(event, 0)] if len(causes) else 0, AS_AROUND)
    is_gap = cause == AS_AROUND
    cause = np.where((cause == Cause.BACKWARD) & ~in_pass, Cause.DISPATCH, cause)
    is_main = main_threads(trace, nested.threads)[thread]
    short = is_gap & (length < _SHORT_GAP_NS)
    known = np.where(is_main, np.where(short, Cause.PYTHON, Cause.UNKNOWN), Cause.IDLE)
    cause = np.where(is_gap, known, cause).astype(np.int64)
    return SimpleNamespace(
        threads=nested.threads, thread=thread, start_ns=start, length_ns=length, event=event,
        is_first=is_first, step=steps.row_at(start), cause=cause, is_gap=is_gap, is_main=is_main,
        dispatch_ns=_dispatch_ns(event, length, is_first, causes),
    )  # fmt: skip


def _dispatch_ns(event, length, is_first, causes):
    """What calling an operator takes that computes next to nothing, once for each operator."""
    result = np.zeros(len(event), dtype=np.int64)
    known = np.flatnonzero(event >= 0)
    leaves = known[causes[event[known]] == Cause.OPERATOR] if len(causes) else known
    if len(leaves) < _FEWEST_LEAVES:
        return result
    fastest = np.percentile(length[leaves], _FASTEST_PERCENTILE)
    result[leaves] = np.where(is_first[leaves], min(int(fastest), _MOST_DISPATCH_NS), 0)
    return result


def _off_processor(pieces, samples, in_transfer):
    """What the kernel says of each piece."""
    result = OffProcessor.of_nothing(len(pieces.start_ns))
    begin = np.searchsorted(pieces.thread, np.arange(len(pieces.threads) + 1))
    expected = np.isin(pieces.cause, WAITS)
    computes = pieces.cause == Cause.OPERATOR
    for number, line in enumerate(pieces.threads):
        if line.number in samples:
            own = slice(int(begin[number]), int(begin[number + 1]))
            spans = (pieces.start_ns[own], pieces.length_ns[own])
            flags = (expected[own], computes[own], in_transfer[own])
            part = lay_over(samples[line.number], *spans, *flags)
            for name in vars(part):
                getattr(result, name)[own] = getattr(part, name)
    return result


def _sums_of_threads(divided, parts):
    pieces, steps = divided["pieces"], len(divided["steps"])
    begin = np.searchsorted(pieces.thread, np.arange(len(pieces.threads) + 1))
    for first, last in pairwise(begin.tolist()):
        own = slice(first, last)
        time, error = np.zeros((2, (steps + 1) * len(Cause)))
        for cause, amount, unsure in parts:
            key = (pieces.step[own] + 1) * len(Cause) + cause[own]
            time += np.bincount(key, weights=amount[own], minlength=len(time))
            error += np.bincount(key, weights=unsure[own], minlength=len(error))
        yield time, error


def _parts(divided):
    """Each piece in up to six parts: a cause, how long, and how unsure that is."""
    pieces, off, in_transfer = divided["pieces"], divided["off"], divided["in_transfer"]
    cost = cost_of_an_event_ns(divided["trace"]) or 0.0
    rest = pieces.length_ns - off.blocked_ns - off.delayed_ns - off.faults_ns
    own = np.minimum(np.where(pieces.is_first, round(cost / 2), 0), rest)
    dispatch = np.minimum(pieces.dispatch_ns, rest - own)
    rest = rest - own - dispatch
    unsure = np.where(pieces.is_gap & ~off.is_sampled & pieces.is_main, rest, 0)
    gaps = _known_gaps(pieces, off, in_transfer, divided["in_pass"])

    def only(cause):
        return np.broadcast_to(np.int64(cause), len(rest))

    return [
        (gaps, rest, unsure),
        (_blocked_in(pieces, off, in_transfer, divided["in_pass"]), off.blocked_ns, off.error_ns),
        (only(Cause.DESCHEDULED), off.delayed_ns, off.delayed_error_ns),
        (only(Cause.MEMORY), off.faults_ns, off.faults_ns // 2),
        (only(Cause.PROFILER), own, own // 2),
        (only(Cause.DISPATCH), dispatch, dispatch // 2),
    ]


def _blocked_in(pieces, off, in_transfer, in_pass):
    """The cause of what each piece waited in a call, where its span does not say it waits.

    A thread that the program runs on waits for the backward pass that runs on another. An operator
    may wait for threads of its own, which is its work; a thread that nothing is asked of rests;
    what imports, compiles or collects goes on doing that. Whoever waits for another thread, nobody
    knows which, while a collective is under way on one waits for that, as the end of a backward
    pass does.
    """
    call = _OF_CALL[off.waits_for]
    awaits = in_pass & pieces.is_main & np.isin(call, _FOR_ANOTHER)
    call = np.where(awaits, Cause.BACKWARD, call)
    call = np.where(in_transfer & np.isin(call, _FOR_ANOTHER), Cause.COLLECTIVE, call)
    operator = (pieces.cause == Cause.OPERATOR) & (call != Cause.IO)
    goes_on = np.isin(pieces.cause, _LASTING) | operator
    rests = ~pieces.is_main & pieces.is_gap
    known = np.select([call == Cause.GIL, goes_on, rests], [call, pieces.cause, Cause.IDLE], call)
    return np.asarray(known, dtype=np.int64)


def _known_gaps(pieces, off, in_transfer, in_pass):
    """What ran where nothing was recorded: where the kernel says that the thread computed, Python;
    between the nodes of a backward pass torch's engine.

    That is Python code, or a library that it calls: torch's own work would have been recorded.
    Where the kernel was not asked, a long gap while a collective is under way is taken for waiting
    for it, and all of that may be wrong.
    """
    computed = np.where(in_pass & ~pieces.is_main, Cause.DISPATCH, Cause.PYTHON)
    cause = np.where(pieces.is_gap & off.is_sampled, computed, pieces.cause)
    awaits = pieces.is_gap & ~off.is_sampled & in_pass & pieces.is_main
    cause = np.where(awaits & (cause == Cause.UNKNOWN), Cause.BACKWARD, cause)
    guessed = pieces.is_gap & ~off.is_sampled & in_transfer & (cause == Cause.UNKNOWN)
    return np.where(guessed, Cause.COLLECTIVE, cause)


def _main(trace, pieces):
    """The thread that calls most operators, but for the engine's; without, that most runs on."""
    called = thread_of_operators(trace, pieces.threads)
    if called >= 0:
        return called
    busy = np.where(pieces.is_gap | ~pieces.is_main, 0, pieces.length_ns)
    count = max(len(pieces.threads), 1)
    return int(np.argmax(np.bincount(pieces.thread, weights=busy, minlength=count)))
