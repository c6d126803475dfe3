"""Wall time that a fix saves, although host and device run at the same time."""

from __future__ import annotations

from enum import Enum

import numpy as np

from opscope.columns.codes import EventKind
from opscope.findings.program_time import main_row
from opscope.findings.subject import Subject, Values
from opscope.timeline.stretches import union_of


class Saves(Enum):
    """The time that a fix saves."""

    EVENTS = "events"  # host and device, in proportion to what the events take of each
    HOST = "host"
    WORK = "work"  # of devices
    WALL = "wall"  # wall time, in which nothing else ran


def saved_of_wall_ns(subject: Subject, events: Values, saved_ns: int, saves: Saves) -> int:
    """Wall time that is saved if events save ``saved_ns``.

    Without a device, both are equal. With a device, host and device overlap, as long as both have
    work left.

    Args:
        events: rows of the finding's events; includes what they call and launch.
        saved_ns: saving on host and device together.
        saves: the time that it refers to.
    """
    wall, (start, end) = subject.wall_ns, subject.device_work
    if saves in (Saves.EVENTS, Saves.HOST):
        saved_ns = int(saved_ns * share_of_one_thread(subject, events))
    if saves is Saves.WALL or not len(start):
        return min(saved_ns, wall)
    busy = min(int(union_of(start, end).total_ns), int(subject.launched_ns.sum()))
    host = _host_ns(subject)
    overlap = max(host + busy - wall, 0)
    of_host = saved_ns * _share_of_host(subject, events, saves)
    host_left = max(host - of_host, 0)
    busy_left = max(busy - (saved_ns - of_host), 0)
    left = host_left + busy_left - min(overlap, host_left, busy_left)
    return int(np.clip(host + busy - overlap - left, 0, wall))


def share_of_one_thread(subject: Subject, events: Values) -> float:
    """Largest share of one thread in the time of events, because threads run in parallel.

    A backward pass counts for the thread that waits for it; collections stop all threads.
    """
    thread = subject.events["thread"].astype(np.int64)
    forward = subject.sites.source[events].astype(np.int64)
    of = np.where(forward >= 0, thread[forward], thread[events])
    of[subject.events["kind"][events] == EventKind.GC_PAUSE] = main_row(subject.trace)
    took = np.bincount(of, weights=subject.duration_ns[events])
    return float(took.max() / took.sum()) if took.sum() > 0 else 1.0


def _host_ns(subject: Subject) -> int:
    """Time of the main thread without waits for devices."""
    main = np.flatnonzero(subject.is_main)
    whole = int(subject.end_ns[main].max() - subject.start_ns[main].min())
    outermost = main[subject.parent[main] < 0]
    took = (subject.end_ns - subject.start_ns)[outermost]
    return whole - int((took - subject.host_ns[outermost]).sum())


def _share_of_host(subject: Subject, events: Values, saves: Saves) -> float:
    if saves is not Saves.EVENTS:
        return float(saves is Saves.HOST)
    outermost = subject.outermost_of(subject.flags(events)[:-1])
    return int(subject.host_ns[outermost].sum()) / max(subject.time_ns(outermost), 1)
