"""Waits for the GIL while another thread runs Python."""

from __future__ import annotations

import numpy as np

from opscope.analysis.account.divided import main_time
from opscope.analysis.sites import Place
from opscope.base.quantity_text import share_text, time_text
from opscope.columns.causes import Cause
from opscope.columns.codes import WaitsFor
from opscope.columns.location import thread_text
from opscope.findings.own_places import places_inside
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.program_time import computed_ns, main_thread
from opscope.findings.status import Status
from opscope.findings.subject import Subject

_BUSY = 0.1  # least share of the time that a named thread computes


def _find(subject: Subject) -> Evidence | None:
    if not (subject.recorded.table("thread_samples")["waits_for"] == WaitsFor.GIL).any():
        return None
    waits = main_time(subject.recorded, causes=(Cause.GIL,))
    total = int(waits.time_ns.sum())
    # The event around each wait or, between operators, the next one.
    own = np.flatnonzero(subject.is_main)
    following = np.searchsorted(subject.recorded.events["start_ns"][own], waits.end_ns)
    who = np.where(waits.event >= 0, waits.event, own[following.clip(0, len(own) - 1)])
    by_event = np.bincount(who, waits.time_ns, len(subject.parent)).astype(np.int64)
    events = np.flatnonzero(by_event)
    if not len(events):
        return None
    beside = computing_beside(subject, least=0.0)
    others = ", ".join(
        f"{thread_text(subject.trace, number)} computed {share_text(share)} of the time"
        for share, number in beside[:3]
        if share >= _BUSY
    )
    # A thread that has the GIL and no CPU makes others wait on a busy machine only.
    computed = int(sum(share for share, _ in beside) * subject.wall_ns)
    meanwhile = f" During the waits, {others}." if others else ""
    return Evidence(
        events=events,
        event_time_ns=by_event[events],
        places=(*line_beside(subject), *subject.sites.places(events, by_event[events])),
        explanation=(
            f"The thread that runs the operators waited {time_text(total)}, "
            f"{subject.share(total)} of the time, for the GIL.{meanwhile} While another thread "
            "computes in Python, a waiting thread gets the GIL after sys.getswitchinterval(), "
            "by default 5 ms."
        ),
        saved_ns=min(total, computed),
        saved_by="the waits in samples of the thread, as far as other threads computed",
    )


def computing_beside(subject: Subject, least: float = _BUSY) -> list[tuple[float, int]]:
    """Other busy threads: share of the time and system id, most first."""
    main = main_thread(subject.trace)
    shares = {n: took / subject.wall_ns for n, took in computed_ns(subject.trace).items()}
    found = [(share, n) for n, share in shares.items() if n > 0 and n != main and share >= least]
    return sorted(found, reverse=True)


def line_beside(subject: Subject) -> tuple[Place, ...]:
    """The line with most time of the busiest other thread."""
    numbers = subject.trace.table("threads")["system_thread_id"][subject.events["thread"]]
    of_it = np.isin(numbers, [number for _, number in computing_beside(subject)[:1]])
    return places_inside(subject, np.flatnonzero(of_it & (subject.parent < 0)))[:1]


GIL = Pattern(
    id="waiting-for-the-gil",
    status=Status.PYTHON,
    cause=Cause.GIL,
    title="The thread that runs the operators waits for the GIL",
    advice=(
        "Move the work of the other thread into a process; replace polling loops by blocking "
        "calls (threading.Event.wait, queue.get)."
    ),
    find=_find,
    needs=(Needs.SAMPLES,),
    worth_saying=0.05,
    is_general=True,
)
