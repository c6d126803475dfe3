"""The account as data: time by step, thread and cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.base.html_table import html_table
from opscope.base.quantity_text import share_text, time_text
from opscope.columns.causes import Cause
from opscope.timeline.arrays import Values
from opscope.timeline.steps import Steps


@dataclass(frozen=True)
class Entry:
    """Time of one cause.

    Attributes:
        share: share of the selected time of the thread, 0 to 1.
        error_ns: approximate error of ``time_ns``.
    """

    cause: Cause
    time_ns: int
    share: float
    error_ns: int

    def as_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "cause": self.cause.name.lower(),
            "title": self.cause.title,
            "time_ns": self.time_ns,
            "share": round(self.share, 6),
            "error_ns": self.error_ns,
        }


@dataclass(frozen=True, eq=False)
class MainTime:
    """Time of the main thread in pieces. Arrays have shape (pieces,)."""

    step: Values  # row in the period's steps; -1 outside all steps
    event: Values  # innermost span, row in the part's ``events``; -1 for none
    cause: Values  # ``Cause``
    time_ns: Values  # part of the stretch with this cause, nanoseconds
    start_ns: Values  # begin of the stretch, Unix nanoseconds
    end_ns: Values  # its end


@dataclass(frozen=True, eq=False)
class Account:
    """Wall time of every thread and device by cause; causes sum to the total.

    For each thread and device, the rows of one step sum to that step's time, and all rows to
    ``wall_ns``. Arrays have shape (rows,); rows without time are omitted.

    Attributes:
        step: row in ``steps``; -1 outside all steps.
        thread: row in ``threads``.
        cause: ``Cause``.
        time_ns: wall nanoseconds.
        error_ns: nanoseconds that may have another cause, if estimated.
        threads: names of the threads, then of the devices.
        main: row in ``threads`` of the program's main thread.
        devices: rows in ``threads`` of the devices.
        steps_are: what delimits them, in words; empty if the program marks them.
        start_ns: begin of the period, Unix nanoseconds.
        wall_ns: its length.
        about: the period in words, as in "steady state, 210 ms, 29 steps".
        notes: missing data that would tell more, one sentence each.
    """

    step: Values
    thread: Values
    cause: Values
    time_ns: Values
    error_ns: Values
    threads: tuple[str, ...]
    main: int
    devices: range
    steps: Steps
    steps_are: str
    start_ns: int
    wall_ns: int
    about: str
    notes: tuple[str, ...]

    def entries(self, step: int | None = None, thread: int | None = None) -> list[Entry]:
        """Time of a thread or device by cause, largest first.

        Args:
            step: row in ``steps``, -1 for time outside all; None for all time.
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

    def busiest_device(self) -> tuple[str, float]:
        """Name and busy share, 0 to 1, of the device that works most; ``("", 0.0)`` without one."""
        busy = [
            (sum(e.share for e in self.entries(thread=row) if e.cause is not Cause.IDLE), row)
            for row in self.devices
        ]
        share, row = max(busy, default=(0.0, -1))
        return (self.threads[row] if share else "", share)

    @property
    def step_ns(self) -> int:
        """Average duration of a step; -1 without steps."""
        took = self.steps.end_ns - self.steps.start_ns
        return int(took.mean()) if len(took) else -1

    def as_dict(self) -> dict[str, Any]:
        """Values for JSON: totals of each thread, and steps of the main thread."""
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
