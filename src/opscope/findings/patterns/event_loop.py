"""Tasks that block an event loop."""

from __future__ import annotations

import numpy as np

from opscope.analysis.account.processor import sampled_threads
from opscope.analysis.function_lines import is_coroutine
from opscope.analysis.requests import request_spans
from opscope.analysis.sites import Place
from opscope.base.quantity_text import time_text
from opscope.columns.row_groups import group_rows, order_rows
from opscope.findings.own_places import places_inside
from opscope.findings.pattern import Evidence, Pattern
from opscope.findings.program_time import busy_text, waited_share
from opscope.findings.status import Status
from opscope.findings.subject import Flags, Subject, Values

_BLOCKED_NS, _IF_BUSY, _PAUSE_NS = 10_000_000, 2, 1_000_000
"""Shortest run that counts; asyncio's debug mode warns from ten times this on. Factor for a busy
machine: waits for a CPU are known for intervals of some 100 ms only. Shortest pause of a loop."""

_MOSTLY = 0.5
_OF_OTHER_CALLS = (
    "Await an asynchronous version of this call, or call it in a thread: await "
    "asyncio.to_thread(function, argument)."
)


def _find(subject: Subject) -> Evidence | None:
    runs = subject.trace.table("task_runs")
    events = runs["event"].astype(np.int64)
    # The event loop of a server has other tasks, even if none ran at that time.
    spans = request_spans(subject.trace)
    of_request = np.isin(events, spans.run[spans.rows]) & (len(spans) > 1)
    others = runs_other_tasks(subject) | of_request
    is_busy = bool(busy_text(waited_share(subject.recorded)))
    shortest_ns = _BLOCKED_NS * (_IF_BUSY if is_busy else 1)
    events = events[(subject.duration_ns[events] >= shortest_ns) & others]
    took = subject.duration_ns[events] - _delayed_ns(subject, events)
    events, took = events[took >= shortest_ns], took[took >= shortest_ns]
    if not len(events):
        return None
    longest = events[int(np.argmax(took))]
    name = subject.trace.event_name(int(longest))
    computing_ns = np.where(subject.is_outermost, subject.duration_ns, 0)
    computed = subject.sums(computing_ns)[events].sum() > _MOSTLY * took.sum()
    return Evidence(
        events=events,
        event_time_ns=took,
        explanation=(
            f"A task ran for {time_text(shortest_ns)} or more without an await {len(events):,} "
            f"times, {time_text(int(np.median(took)))} in the median and "
            f"{time_text(int(took.max()))} at the longest ({name}). All other tasks of the "
            "event loop wait for it, which makes the slowest requests slower."
        ),
        places=(*_handlers(subject, events), *places_inside(subject, events)),
        saved_ns=None,
        saved_by="no computing time is saved; other tasks wait less",
        advice="" if computed else _OF_OTHER_CALLS,
    )


def _handlers(subject: Subject, events: Values) -> tuple[Place, ...]:
    """The line of a coroutine of the program with most time: the one to move to a thread."""
    frames, names, sites = subject.trace.table("frames"), subject.trace.names, subject.sites
    is_async = np.zeros(len(frames) + 1, dtype=np.bool_)
    inside = sites.called_here & subject.within(subject.flags(events))
    for row in np.unique(sites.caller[inside]).tolist():
        file, first = names[frames["file"][row]], int(frames["line"][row])
        is_async[row] = is_coroutine(subject.recorded, file, first)
    rows = np.flatnonzero(inside & is_async[sites.caller] & ~is_async[sites.frame])
    return sites.places(rows, subject.duration_ns[rows], with_modules=False)[:1]


def _delayed_ns(subject: Subject, events: Values) -> Values:
    """Time in which the thread of each event waited for a CPU, evenly between two samples.

    The main thread's waits are in no duration.
    """
    columns, delayed = subject.recorded.events, np.zeros(len(events))
    begin, took = columns["start_ns"][events], columns["duration_ns"][events]
    numbers = subject.recorded.table("threads")["system_thread_id"][columns["thread"][events]]
    for number, samples in sampled_threads(subject.recorded).items():
        own = (numbers == number) & ~subject.is_main[events]
        known = (np.append(samples.start_ns, samples.end_ns), np.append(0, samples.delayed_ns))
        until = (np.interp(at, known[0], np.cumsum(known[1])) for at in (begin, begin + took))
        delayed[own] = np.diff([*until], axis=0)[0][own]
    return delayed.astype(np.int64)


def runs_other_tasks(subject: Subject) -> Flags:
    """Whether, at each run, another task has begun and will run again. Shape (task runs,).

    Not counting a task that runs first after a pause, directly before: it probably waits for the
    result.
    """
    runs = subject.trace.table("task_runs")
    events = runs["event"].astype(np.int64)
    start, task = subject.start_ns[events], group_rows(runs["task"]).group
    if not len(task):
        return np.zeros(0, dtype=np.bool_)
    first = np.full(task.max() + 1, np.iinfo(np.int64).max)
    last = np.full(task.max() + 1, np.iinfo(np.int64).min)
    np.minimum.at(first, task, start)
    np.maximum.at(last, task, start)
    begun = np.searchsorted(np.sort(first), start, side="left")
    done = np.searchsorted(np.sort(last), start, side="right")
    itself = (first[task] < start) & (last[task] > start)
    return np.asarray(begun - done - itself - _handed_over(subject, events, task) > 0)


def _handed_over(subject: Subject, events: Values, task: Values) -> Flags:
    """Whether another task, the first one after a pause of the loop, ran directly before."""
    thread, start = subject.events["thread"][events], subject.start_ns[events]
    order = order_rows(thread, start)
    end, found = (start + subject.duration_ns[events])[order], np.zeros(len(order), dtype=np.bool_)
    follows = start[order][1:] - end[:-1] < _PAUSE_NS
    follows = np.append(False, follows & (np.diff(thread[order]) == 0))
    at = np.flatnonzero(follows[1:] & (np.diff(task[order]) != 0)) + 1
    at = at[(at > 1) & ~follows[at - 1]]  # before the first run the loop may have worked
    found[order[at]] = True
    return found


EVENT_LOOP = Pattern(
    id="event-loop-blocked",
    status=Status.EVENT_LOOP,
    title="A task blocks the event loop",
    advice=(
        "Compute in a thread: await asyncio.to_thread(model, batch), with "
        "torch.set_num_threads() as needed. Or insert an await between the parts."
    ),
    find=_find,
)
