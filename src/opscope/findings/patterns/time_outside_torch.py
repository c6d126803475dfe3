"""Time outside torch: in the program's own Python code, and in other libraries."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from opscope.analysis.account.divided import main_time
from opscope.analysis.sites import MOST_PLACES, Place
from opscope.columns.causes import WAITS, Cause
from opscope.columns.row_groups import group_rows
from opscope.findings.own_places import own_place
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.patterns.event_loop import runs_other_tasks
from opscope.findings.patterns.gil import line_beside
from opscope.findings.status import Status
from opscope.findings.subject import Flags, Subject, Values
from opscope.findings.time_split import Spent, TimeSplit
from opscope.timeline.tree.frame_text import event_texts

_LINE_WORTH_NAMING = 0.02
_MOSTLY = 0.5
_OF_SLEEP = (
    "Remove this pause, or wait for the event itself (a queue, a condition, a future); in a "
    "coroutine await asyncio.sleep(). A pause between requests delays no request."
)
_OF_A_THREAD = (
    "Make what another thread or process does faster, as on whole arrays, or give it to several "
    "processes (DataLoader workers): the main thread waits for it."
)
_OF_A_LOCK = (
    "Hold the lock for less time: move sleeps, files, networks and work on own data out of it, or "
    "give each thread its own object. If the lock is a library's, use processes."
)
_MUCH = 0.3
"""A call with more than this share outside torch counts as outside, including the torch calls in
it; for example, a deep copy of tensors."""


@dataclass(frozen=True)
class _Line:
    """Time outside torch at one place.

    Attributes:
        what: what runs there, in words.
        events: rows of calls from there, or of calls of a function.
        time_ns: time outside torch.
        is_between_calls: the line is estimated from the calls around it.
    """

    place: Place
    what: str
    events: Values
    time_ns: int
    is_between_calls: bool = False


def _find(subject: Subject) -> Evidence | None:
    split, least = subject.once(TimeSplit), _LINE_WORTH_NAMING * subject.wall_ns
    lines = [*_calls(subject, split), *_own_code(subject, split)]
    lines = [one for one in lines if one.time_ns >= least]
    at_line: Counter[tuple[str, int]] = Counter()  # a line may both call and compute
    for one in lines:
        at_line[one.place.file, one.place.line] += one.time_ns
    lines.sort(key=lambda one: (-at_line[one.place.file, one.place.line], -one.time_ns))
    if not lines:
        return None
    total, named = sum(one.time_ns for one in lines), lines[:MOST_PLACES]
    words = "; ".join(f"{one.what} {subject.share(one.time_ns)}" for one in named[:3])
    is_approximate = any(one.is_between_calls for one in named)
    caution = " Lines of Python are approximate, derived from the calls around them."
    asleep, locked, blocked = (
        int(main_time(subject.recorded, causes=causes).time_ns.sum())
        for causes in ((Cause.TIMER,), (Cause.LOCK,), WAITS)
    )
    beside = line_beside(subject) if blocked - asleep > _MOSTLY * total else ()
    advice = _OF_A_THREAD if beside else _OF_SLEEP if asleep > _MOSTLY * total else ""
    advice = _OF_A_LOCK if locked > _MOSTLY * total and not beside else advice
    runs = subject.trace.table("task_runs")["event"][runs_other_tasks(subject)].astype(np.int64)
    keeps_others = bool(subject.within(subject.flags(runs))[named[0].events].any())
    waiting = Status.EVENT_LOOP if keeps_others else Status.WAITING
    sleeps = f" The thread sleeps for {subject.share(asleep)} of the time." if asleep else ""
    return Evidence(
        events=np.concatenate([one.events for one in named]),
        time_ns=total,
        explanation=(
            f"{subject.share(total)} of the time is spent in Python and in libraries outside "
            f"torch: {words}.{caution * is_approximate}{sleeps}"
        ),
        saved_ns=total,
        saved_by=(
            "all of the time at these lines; an upper bound, as the program may need some of "
            "this work"
        ),
        places=(*beside, *(one.place for one in named)),
        advice=advice,
        status=waiting if blocked > _MOSTLY * total else None,
    )


def _calls(subject: Subject, split: TimeSplit) -> list[_Line]:
    """Lines of the program that call code outside torch."""
    spent, functions = split.outside_ns, subject.sites.defined_here
    events = np.flatnonzero((spent > 0) & (subject.sites.around >= 0))
    site = subject.sites.around[events]
    by_site = np.bincount(site, weights=spent[events], minlength=len(spent)).astype(np.int64)
    whole = _mostly_outside(subject, split, by_site) & ~functions
    by_site = np.where(whole, np.maximum(by_site, subject.duration_ns), by_site)
    sites = np.flatnonzero(by_site)
    frame, line = (column[sites] for column in subject.sites.at)
    at = group_rows(frame, line)
    total = np.bincount(at.group, weights=by_site[sites]).astype(np.int64)
    label, texts = event_texts(subject.trace)
    lines = []
    for row in np.argsort(-total)[:MOST_PLACES].tolist():
        own = sites[at.group == row]
        longest = own[np.argmax(subject.duration_ns[own])]
        where = (int(at.columns[0][row]), int(at.columns[1][row]))
        place = subject.sites.place(*where, -1, len(own), int(total[row]))
        if functions[own].any():  # only the function is known: use the calls in it
            within = events[np.isin(site, own[functions[own]])]
            own = np.union1d(own[~functions[own]], within)
        lines.append(_Line(place, _short(texts[label[longest]]), own, int(total[row])))
    return lines


def _mostly_outside(subject: Subject, split: TimeSplit, by_site: Values) -> Flags:
    """Calls that count as outside torch, with the torch calls in them.

    For a library that uses torch's Python but runs no network, half of the share is enough.
    """
    much, took = by_site > _MUCH * subject.duration_ns, subject.duration_ns
    of_torch = np.where(split.is_spent(Spent.TORCH_PYTHON), split.self_ns, 0)
    runs_none = subject.sums(subject.is_training | subject.is_module_call) == 0
    around_torch = by_site + subject.sums(of_torch)
    library = split.is_spent(Spent.OUTSIDE) & runs_none
    some = by_site > _MUCH / 2 * took
    return np.asarray(much | (library & some & (around_torch > _MUCH * took)))


def _short(text: str) -> str:
    """Function name: loads for ``json/__init__.py(299): loads``; no address for built-in ones."""
    if text.startswith("<"):
        return text.strip("<>").partition(" of ")[0].partition(" object at ")[0]
    return text.rpartition(": ")[2]


def _own_code(subject: Subject, split: TimeSplit) -> list[_Line]:
    """Functions of the program with own Python code, at the lines between their calls."""
    spent = split.own_ns
    rows = np.flatnonzero(spent > 0)
    frame = subject.sites.frame[rows]
    totals = np.bincount(frame, weights=spent[rows]).astype(np.int64)
    lines = []
    for number in np.argsort(-totals)[:MOST_PLACES].tolist():
        total, own = int(totals[number]), rows[frame == number]
        if total < _LINE_WORTH_NAMING * subject.wall_ns:
            break
        place = own_place(subject, number, own, total)
        what = f"Python code of {place.function}"
        lines.append(_Line(place, what, own, total, is_between_calls=True))
    return lines


TIME_OUTSIDE_TORCH = Pattern(
    id="time-outside-torch",
    status=Status.PYTHON,
    cause=Cause.PYTHON,
    title="Time is spent in Python and libraries outside torch",
    advice=(
        "Move constant work out of the loop; do the rest on whole tensors in torch, or in "
        "parallel (DataLoader workers, another thread or process)."
    ),
    find=_find,
    needs=(Needs.STACKS, Needs.EVENTS),
    worth_saying=0.08,
    is_general=True,
)
