"""Lines of the program that take the time of events, also in functions that compute themselves."""

from __future__ import annotations

import numpy as np

from opscope.analysis.function_lines import gap_lines
from opscope.analysis.sites import Place
from opscope.findings.subject import Subject, Values


def own_place(subject: Subject, frame: int, calls: Values, time_ns: int) -> Place:
    """The line at which calls of one function, a row of ``frames``, spend time of their own."""
    frames = subject.trace.table("frames")
    begin = int(frames["line"][frame])
    function = (subject.trace.names[frames["file"][frame]], begin)
    is_call = subject.flags(calls)[:-1]
    times_ns = (subject.start_ns, subject.duration_ns)
    group = np.zeros(len(is_call), np.int32)
    at = gap_lines(subject.sites, times_ns, is_call, group, [function])
    return subject.sites.place(frame, at.get(0, begin), -1, len(calls), time_ns)


def places_inside(subject: Subject, events: Values) -> tuple[Place, ...]:
    """The lines of the program that take the time of these events."""
    within = np.flatnonzero(subject.within(subject.flags(events)))
    places = subject.sites.places(within, subject.own_ns[within], with_modules=False)
    # Of a function of the program that waits or computes by itself: the line, not where it begins.
    functions = within[subject.sites.defined_here[within]]
    own = functions[subject.own_ns[functions] > 0]
    if not len(own):
        return places
    frame = subject.sites.frame[own]
    total = np.bincount(frame, weights=subject.own_ns[own]).astype(np.int64)
    most = int(np.argmax(total))
    if total[most] < max((one.time_ns for one in places), default=0):
        return places
    return (own_place(subject, most, own[frame == most], int(total[most])), *places[1:])
