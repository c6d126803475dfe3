"""Time that passes outside torch: in Python of the program's own, and in other libraries."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opscope.analysis.sites import MOST_PLACES, Place
from opscope.base.quantity_text import share_text
from opscope.columns.row_groups import group_rows
from opscope.columns.schema import EventKind
from opscope.findings.gaps import gap_lines
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.status import Status
from opscope.findings.subject import Flags, Subject, Values
from opscope.findings.time_split import Spent, TimeSplit
from opscope.timeline.tree.event_tree import subtree_sums
from opscope.timeline.tree.frame_text import event_texts

_WORTH_SAYING, _LINE_WORTH_NAMING = 0.08, 0.02

_MUCH = 0.3
"""A call is outside torch if more than this of its time is, and what it calls of torch with it: a
deep copy of tensors is one."""


@dataclass(frozen=True)
class _Line:
    """Time outside torch at one place.

    Attributes:
        place: where.
        what: passes there, in words.
        events: calls from there, rows; or what runs in a function.
        time_ns: outside torch.
        is_between_calls: nothing was recorded there, and the line is told by the calls around it.
    """

    place: Place
    what: str
    events: Values
    time_ns: int
    is_between_calls: bool = False


def _find(subject: Subject) -> Evidence | None:
    if not subject.sites.known:
        return None
    split = subject.once(TimeSplit)
    lines = [*_calls(subject, split), *_own_code(subject, split)]
    lines = sorted(
        (one for one in lines if one.time_ns >= _LINE_WORTH_NAMING * subject.wall_ns),
        key=lambda one: -one.time_ns,
    )
    total = sum(one.time_ns for one in lines)
    if not lines or total < _WORTH_SAYING * subject.wall_ns:
        return None
    named = lines[:MOST_PLACES]
    events = np.concatenate([one.events for one in named])
    words = "; ".join(
        f"{one.what} {share_text(one.time_ns / subject.wall_ns)}" for one in named[:3]
    )
    told = " Of Python code the line is told from the calls before and after it."
    return Evidence(
        events=events,
        time_ns=total,
        explanation=(
            f"{share_text(total / subject.wall_ns)} of the time passes outside torch, in Python or "
            f"in libraries that torch knows nothing of: {words}."
            + (told if any(one.is_between_calls for one in named) else "")
        ),
        saved_ns=total,
        saved_by=(
            "all of the time at these lines; at most, as some of it may be what the program is for"
        ),
        places=tuple(one.place for one in named),
    )


def _calls(subject: Subject, split: TimeSplit) -> list[_Line]:
    """Lines of the program that call what is not torch."""
    spent: Values = split.outside_ns
    events = np.flatnonzero(spent > 0)
    site = subject.sites.around[events]
    known = site >= 0
    events, site = events[known], site[known]
    by_site = np.bincount(site, weights=spent[events], minlength=len(spent)).astype(np.int64)
    whole = _mostly_outside(subject, split, by_site) & ~subject.sites.defined_here
    by_site = np.where(whole, np.maximum(by_site, subject.duration_ns), by_site)
    sites = np.flatnonzero(by_site)
    return [
        replace(line, events=_who_takes_it(subject, line.events, events, site))
        for line in _by_line(subject, sites.astype(np.int64), by_site[sites])
    ]


def _who_takes_it(subject: Subject, sites: Values, events: Values, site: Values) -> Values:
    """Calls from a line; where only the function is known that made them, they and not that."""
    functions = sites[subject.sites.defined_here[sites]]
    if not len(functions):
        return sites
    calls = sites[~subject.sites.defined_here[sites]]
    return np.union1d(calls, events[np.isin(site, functions)])


def _mostly_outside(subject: Subject, split: TimeSplit, by_site: Values) -> Flags:
    """Calls that count as outside torch with all they call of it.

    Of what a library that is not torch does by means of torch's Python, less is enough: where no
    network is trained or runs in it.
    """
    much = by_site > _MUCH * subject.duration_ns
    of_torch = np.where(split.whose == Spent.TORCH_PYTHON, split.self_ns, 0)
    runs = subject.is_training | (subject.events["kind"] == EventKind.MODULE_CALL)
    around_torch = by_site + subtree_sums(subject.parent, of_torch)
    library = (split.whose == Spent.OUTSIDE) & (subtree_sums(subject.parent, runs) == 0)
    some = by_site > _MUCH / 2 * subject.duration_ns
    return np.asarray(much | (library & some & (around_torch > _MUCH * subject.duration_ns)))


def _by_line(subject: Subject, sites: Values, time_ns: Values) -> list[_Line]:
    if not len(sites):
        return []
    frame, line = (column[sites] for column in subject.sites.at)
    found = group_rows(frame, line)
    group = found.group
    total = np.bincount(group, weights=time_ns).astype(np.int64)
    label, texts = event_texts(subject.trace)
    lines = []
    for row in np.argsort(-total)[:MOST_PLACES].tolist():
        own = sites[group == row]
        longest = own[np.argmax(subject.duration_ns[own])]
        count = len(own)
        place = subject.sites.place(
            int(found.columns[0][row]), int(found.columns[1][row]), -1, count, int(total[row])
        )
        lines.append(_Line(place, _short(texts[label[longest]]), own, int(total[row])))
    return lines


def _short(text: str) -> str:
    """``json/__init__.py(299): loads`` as loads; a built-in one without its object's address."""
    if text.startswith("<"):
        return text.strip("<>").partition(" of ")[0].partition(" object at ")[0]
    return text.rpartition(": ")[2]


def _own_code(subject: Subject, split: TimeSplit) -> list[_Line]:
    """Functions of the program that compute in Python, at the lines between what they call."""
    spent = split.own_ns
    rows = np.flatnonzero(spent > 0)
    frame = subject.sites.frame[rows]
    lines = []
    totals = np.bincount(frame, weights=spent[rows]).astype(np.int64)
    for number in np.argsort(-totals)[:MOST_PLACES].tolist():
        if totals[number] < _LINE_WORTH_NAMING * subject.wall_ns:
            break
        own = rows[frame == number]
        place = subject.sites.place(
            number, _widest_gap(subject, number, own), -1, len(own), int(totals[number])
        )
        what = f"Python code of {place.function}"
        lines.append(_Line(place, what, own, int(totals[number]), is_between_calls=True))
    return lines


def _widest_gap(subject: Subject, frame: int, calls: Values) -> int:
    """The line that most time passes at in the calls (rows) of a function (row of frames)."""
    frames, is_call = subject.trace.table("frames"), np.zeros(len(subject.parent), dtype=np.bool_)
    first, file = int(frames["line"][frame]), subject.trace.names[frames["file"][frame]]
    is_call[calls] = True
    lines = gap_lines(subject, is_call, np.zeros(len(is_call), np.int32), [(file, first)])
    return lines.get(0, first)


TIME_OUTSIDE_TORCH = Pattern(
    id="time-outside-torch",
    status=Status.PYTHON,
    title="Time passes in Python and in libraries outside torch",
    advice=(
        "Do what does not change once, before the loop; do the rest on whole tensors, in torch, or "
        "beside the training (in workers of the DataLoader, in another thread or process)."
    ),
    find=_find,
    needs=(Needs.STACKS, Needs.EVENTS),
    is_general=True,
)
