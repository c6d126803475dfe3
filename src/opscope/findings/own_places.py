"""Lines of the program with the time of events, also for a function's own Python code."""

from __future__ import annotations

import numpy as np

from opscope.analysis.function_lines import gap_lines
from opscope.analysis.sites import Place
from opscope.findings.subject import Subject, Values


def own_place(subject: Subject, frame: int, calls: Values, time_ns: int) -> Place:
    """The line with most own time in ``calls`` of one function; ``frame``: row of ``frames``."""
    frames = subject.trace.table("frames")
    begin = int(frames["line"][frame])
    function = (subject.trace.names[frames["file"][frame]], begin)
    is_call = subject.flags(calls)[:-1]
    times_ns = (subject.start_ns, subject.duration_ns)
    group = np.zeros(len(is_call), np.int32)
    at = gap_lines(subject.sites, times_ns, is_call, group, [function])
    return subject.sites.place(frame, at.get(0, begin), -1, len(calls), time_ns)


def places_inside(subject: Subject, events: Values) -> tuple[Place, ...]:
    """Lines of the program with most of the time of ``events``."""
    is_within, own_ns = subject.within(subject.flags(events)), subject.own_ns
    is_function = subject.sites.defined_here
    others = np.flatnonzero(is_within & ~is_function)
    places = subject.sites.places(others, own_ns[others], with_modules=False)
    # A function's own time belongs to a line inside it, not to the line that calls it.
    own = np.flatnonzero(is_within & is_function & (own_ns > 0))
    if not len(own):
        return places
    frame = subject.sites.frame[own]
    total = np.bincount(frame, weights=own_ns[own]).astype(np.int64)
    most = int(np.argmax(total))
    if total[most] < max((one.time_ns for one in places), default=0):
        return places
    return (own_place(subject, most, own[frame == most], int(total[most])), *places)
