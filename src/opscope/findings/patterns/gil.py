"""Another thread's Python keeps the program from running its own."""

from __future__ import annotations

import numpy as np

from opscope.analysis.account.account import MainTime
from opscope.analysis.account.find import main_time
from opscope.base.quantity_text import share_text, time_text
from opscope.columns.causes import Cause
from opscope.columns.codes import WaitsFor
from opscope.columns.location import thread_text
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.program_time import main_thread
from opscope.findings.status import Status
from opscope.findings.subject import Subject, Values

_WORTH_SAYING = 0.05
_BUSY = 0.1
"""Of the time, what another thread computes before it is named."""


def _find(subject: Subject) -> Evidence | None:
    if not (subject.recorded.table("thread_samples")["waits_for"] == WaitsFor.GIL).any():
        return None
    waits = main_time(subject.recorded, causes=(Cause.GIL,))
    total = int(waits.time_ns.sum())
    if total < _WORTH_SAYING * subject.wall_ns:
        return None
    by_event = np.zeros(len(subject.parent), dtype=np.int64)
    np.add.at(by_event, _who_waited(subject, waits), waits.time_ns.astype(np.int64))
    events = np.flatnonzero(by_event)
    others = _others(subject)
    meanwhile = f" Meanwhile {others}." if others else ""
    return Evidence(
        events=events,
        event_time_ns=by_event[events],
        time_ns=total,
        explanation=(
            f"The thread that runs the operators waited {time_text(total)}, "
            f"{share_text(total / subject.wall_ns)} of the time, for Python's lock, which one "
            f"thread at a time has.{meanwhile} While another one computes in Python, a thread "
            "that asks for it gets it after sys.getswitchinterval(), 5 ms unless it was changed."
        ),
        saved_ns=total,
        saved_by="the waits, as samples of the thread show them",
    )


def _who_waited(subject: Subject, waits: MainTime) -> Values:
    """The event that each wait was in; of one in none, as between operators, that comes next."""
    own = np.flatnonzero(subject.is_main)
    start_ns = subject.recorded.events["start_ns"][own]
    order = np.argsort(start_ns, kind="stable")
    own, start_ns = own[order], start_ns[order]
    following = np.searchsorted(start_ns, waits.end_ns).clip(0, len(own) - 1)
    return np.where(waits.event >= 0, waits.event, own[following])


def _others(subject: Subject) -> str:
    """Which other threads computed, in words; empty where none did much."""
    trace, said = subject.trace, []
    samples = trace.table("thread_samples")
    main = main_thread(trace)
    for number in np.unique(samples["system_thread_id"]).tolist():
        own = np.flatnonzero(samples["system_thread_id"] == number)
        share = int(np.ptp(samples["computed_ns"][own])) / subject.wall_ns
        if number != main and share >= _BUSY:
            text = f"{thread_text(trace, number)} computed {share_text(share)} of the time"
            said.append((share, text))
    return ", ".join(text for _, text in sorted(said, reverse=True)[:3])


GIL = Pattern(
    id="waiting-for-the-gil",
    status=Status.PYTHON,
    title="Other threads' Python keeps operators from being called",
    advice=(
        "Move what the other thread computes into a process of its own; let a thread that waits "
        "do so in a call that blocks (threading.Event.wait, queue.get) and not in a loop."
    ),
    find=_find,
    needs=(Needs.SAMPLES,),
)
