"""The account itself: how long, in which step and on which thread, for which cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.base.html_table import html_table
from opscope.base.quantity_text import share_text, time_text
from opscope.columns.causes import Cause
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Values
from opscope.timeline.steps import Steps


@dataclass(frozen=True)
class Entry:
    """What one cause took.

    Attributes:
        cause: which.
        time_ns: how long.
        share: of the time looked at.
        error_ns: about how much more or less it may be.
    """

    cause: Cause
    time_ns: int
    share: float
    error_ns: int

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold."""
        return {
            "cause": self.cause.name.lower(),
            "title": self.cause.title,
            "time_ns": self.time_ns,
            "share": round(self.share, 6),
            "error_ns": self.error_ns,
        }


@dataclass(frozen=True, eq=False)
class MainTime:
    """The time of the main thread, piece by piece. Arrays have shape (pieces,)."""

    trace: TraceData  # the part looked at
    steps: Steps  # its steps
    step: Values  # row in ``steps``; -1 outside all steps
    event: Values  # the innermost span then, row in the part's ``events``; -1 for none
    cause: Values  # ``Cause``
    # nanoseconds on the clock, somewhere between the two that follow; a stretch of several causes
    # is there once for each
    time_ns: Values
    start_ns: Values  # when the stretch begins, Unix nanoseconds
    end_ns: Values  # when it ends


@dataclass(frozen=True, eq=False)
class Account:
    """The wall time of every thread and device, divided into causes without rest.

    Of each thread, and of each device, the rows of one step add up to the time of that step, and
    all of its rows to ``wall_ns``. Arrays have shape (rows,); a row of no time is left out.

    Attributes:
        step: row in ``steps``; -1 outside all steps.
        thread: row in ``threads``.
        cause: ``Cause``.
        time_ns: nanoseconds on the clock.
        error_ns: about how many of them may be of another cause, where that was estimated.
        threads: names of the threads, then of the devices.
        main: row in ``threads`` of the one that the program runs on.
        steps: the steps of the program.
        steps_are: what they are where nothing marks them; empty where the program does.
        start_ns: when the time looked at begins, Unix nanoseconds.
        wall_ns: how long it is.
        about: the same in words, as in "steady state, 210 ms, 29 steps".
        notes: what was not recorded that would tell more, one sentence each.
    """

    step: Values
    thread: Values
    cause: Values
    time_ns: Values
    error_ns: Values
    threads: tuple[str, ...]
    main: int
    steps: Steps
    steps_are: str
    start_ns: int
    wall_ns: int
    about: str
    notes: tuple[str, ...]

    def entries(self, step: int | None = None, thread: int | None = None) -> list[Entry]:
        """What a thread or device spent its time on, most first.

        Args:
            step: row in ``steps``, -1 for what is outside all; None for all time.
            thread: row in ``threads``; None for the main thread.
        """
        chosen = self.thread == (self.main if thread is None else thread)
        if step is not None:
            chosen &= self.step == step
        size = len(Cause)
        time = np.bincount(self.cause[chosen], weights=self.time_ns[chosen], minlength=size)
        error = np.bincount(self.cause[chosen], weights=self.error_ns[chosen], minlength=size)
        total = max(float(time.sum()), 1.0)
        order = [cause for cause in np.argsort(-time, kind="stable").tolist() if time[cause] > 0]
        return [
            Entry(Cause(cause), int(time[cause]), float(time[cause] / total), int(error[cause]))
            for cause in order
        ]

    def table(self, thread: int | None = None) -> Values:
        """Nanoseconds by step and cause of a thread or device, shape (steps, causes)."""
        chosen = (self.thread == (self.main if thread is None else thread)) & (self.step >= 0)
        key = self.step[chosen] * len(Cause) + self.cause[chosen]
        size = len(self.steps) * len(Cause)
        sums = np.bincount(key, weights=self.time_ns[chosen], minlength=size)
        return sums.astype(np.int64).reshape(len(self.steps), len(Cause))

    @property
    def step_ns(self) -> int:
        """What a step takes on average; -1 without steps."""
        took = self.steps.end_ns - self.steps.start_ns
        return int(took.mean()) if len(took) else -1

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold: each thread in all, and the main one step by step."""
        return {
            "about": self.about,
            "start_ns": self.start_ns,
            "wall_ns": self.wall_ns,
            "main": self.main,
            "threads": [
                {"name": name, "causes": [e.as_dict() for e in self.entries(thread=row)]}
                for row, name in enumerate(self.threads)
            ],
            "steps_are": self.steps_are,
            "steps": [
                {
                    "number": int(self.steps.number[row]),
                    "start_ns": int(self.steps.start_ns[row]),
                    "wall_ns": int(self.steps.end_ns[row] - self.steps.start_ns[row]),
                    "causes": {
                        Cause(cause).name.lower(): time_ns
                        for cause, time_ns in enumerate(times)
                        if time_ns
                    },
                }
                for row, times in enumerate(self.table().tolist())
            ],
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        rows = "".join(
            f"\n  {share_text(e.share):>6}  {time_text(e.time_ns):>8}  {e.cause.title}"
            for e in self.entries()
        )
        return f"<Account of {self.about}, {len(self.threads)} threads and devices{rows}>"

    def _repr_html_(self) -> str:
        rows = [
            [e.cause.title, time_text(e.time_ns), share_text(e.share), time_text(e.error_ns)]
            for e in self.entries()
        ]
        columns = ("where the time went", "time", "share", "±")
        return html_table(
            "opscope: account of time", columns, rows, " ".join(self.notes), texts=(0,)
        )
