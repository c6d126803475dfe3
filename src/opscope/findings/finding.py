"""The findings of a trace, as text and as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from opscope.analysis.sites import Place
from opscope.base.html_table import html_table
from opscope.base.quantity_text import share_text, time_text
from opscope.findings.program_time import BUSY, busy_text
from opscope.findings.status import Status
from opscope.findings.subject import FEW_DROPPED

Values = npt.NDArray[np.int64]
Severity = Literal["high", "medium", "low"]

_HIGH, _MEDIUM = 0.10, 0.02
_LITTLE = 0.001
_AS_THEY_ARE = (
    *("id", "title", "severity", "explanation", "advice", "occurrences", "time_ns", "saved_ns"),
    *("saved_bytes", "saved_by", "measured", "place_note", "link"),
)
"""Attributes that go to JSON unchanged."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Finding:
    """One performance problem and its fix. Shares are of ``Findings.wall_ns``: 0.25 is a quarter.

    Attributes:
        id: stable across releases, such as ``gradients-set-to-zero``.
        title: one line.
        explanation: what was seen in this recording, with numbers, and why it costs time.
        advice: what to change in the program.
        events: row in ``events`` of each occurrence, shape (occurrences,).
        time_ns: time of the occurrences.
        time_share: the same as a share.
        saved_ns: estimated saving of the fix; None if this recording cannot tell.
        saved_share: the same as a share.
        saved_by: how ``saved_ns`` was estimated.
        measured: whether it was measured with torch on this machine.
        places: lines of the program, or modules, with most time first.
        place_note: what to record to get the lines; empty if they are known.
        link: further reading.
        status: status of a program whose main finding this is.
        saved_bytes: memory that the fix saves; None if it is not about memory.
        saved_bytes_share: the same as a share of the peak.
    """

    id: str
    title: str
    explanation: str
    advice: str
    occurrences: int
    events: Values
    time_ns: int
    time_share: float
    saved_ns: int | None
    saved_share: float | None
    saved_by: str
    measured: bool
    places: tuple[Place, ...]
    place_note: str
    link: str
    status: Status = Status.OPERATORS
    saved_bytes: int | None = None
    saved_bytes_share: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether the saving is known, in time or in memory."""
        return self.saved_share is not None or self.saved_bytes is not None

    @property
    def weight(self) -> float:
        """Key for sorting: the share of time saved, or half of the share of memory saved."""
        return max(self.saved_share or 0.0, self.saved_bytes_share / 2)

    @property
    def severity(self) -> Severity:
        """Severity: high from 10 % of the time saved, medium from 2 %; twice that of memory."""
        share = self.weight
        return "high" if share >= _HIGH else "medium" if share >= _MEDIUM else "low"

    def __repr__(self) -> str:
        saved = "" if self.saved_share is None else f", saves {share_text(self.saved_share)}"
        at = f", at {self.places[0]}" if self.places else ""
        return f"<Finding {self.id}: {self.severity}{saved}{at}>"

    def _repr_html_(self) -> str:
        places = [
            [str(place), f"{place.occurrences:,}", time_text(place.time_ns)]
            for place in self.places
        ]
        saves = "unknown" if self.saved_ns is None else time_text(self.saved_ns)
        note = f"{self.explanation} What to do: {self.advice} Saves: {saves} ({self.saved_by})."
        return html_table(f"opscope: {self.title}", ("at", "times", "time"), places, note)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            **{name: getattr(self, name) for name in _AS_THEY_ARE},
            "time_share": round(self.time_share, 6),
            "saved_share": None if self.saved_share is None else round(self.saved_share, 6),
            "places": [place.as_dict() for place in self.places],
            "first_event": int(self.events[0]) if len(self.events) else -1,
        }


@dataclass(frozen=True)
class Unchecked:
    """A pattern that could not be checked, because data was not recorded.

    Attributes:
        needs: what to record, in one sentence.
    """

    id: str
    title: str
    needs: str


@dataclass(frozen=True)
class Unexplained:
    """Time of the main thread that no relevant finding explains.

    Attributes:
        time_ns: total.
        share: share of the period.
        parts: owner of the time in words, and nanoseconds; most first.
        places: lines of the program with most of this time.
    """

    time_ns: int
    share: float
    parts: tuple[tuple[str, int], ...]
    places: tuple[Place, ...]

    def __str__(self) -> str:
        return self.text()

    def text(self, place_text: Callable[[Place], str] = str) -> str:
        """The finding-free time as a sentence; ``place_text`` formats a place."""
        parts = ", ".join(
            f"{what} {share_text(time_ns / max(self.time_ns, 1))}"
            for what, time_ns in self.parts[:3]
        )
        text = f"{share_text(self.share)} of the time has no finding: {parts}"
        if not self.places:
            return text
        return f"{text}; most at {', '.join(map(place_text, self.places))}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "time_ns": self.time_ns,
            "share": round(self.share, 6),
            "parts": [{"what": what, "time_ns": time_ns} for what, time_ns in self.parts],
            "places": [place.as_dict() for place in self.places],
        }


@dataclass(frozen=True, eq=False)
class Findings:
    """Findings, absent patterns, and patterns that could not be checked.

    Iterates over the findings, largest saving first.

    Attributes:
        absent: ids of checked patterns that are not in the trace.
        unchecked: patterns whose data was not recorded.
        wall_ns: the time that shares refer to: from the first event after start-up to the end of
            the last, less profiling overhead and waits for a CPU, if known.
        about: the period in words, as in "steady state, 210 ms, 29 steps".
        start_up_ns: imports, set-up and the first step, which are left out; 0 for none.
        start_up: the same in one line; empty for none.
        unexplained: time that no finding explains; None: not computed.
        waited_share: share of the time that the thread waited for a CPU; None: not recorded.
        dropped_share: share of the requested events that were dropped.
        is_recorded_time: the recording's overhead is unknown, so times and savings include it.
        taken_off_ns: profiling overhead and waits for a CPU that ``wall_ns`` excludes.
        sampled: data recorded only part of the time, to stay below a budget; else empty.
        launched_elsewhere: share of device work whose launch is outside the period or unknown.
    """

    found: tuple[Finding, ...]
    absent: tuple[str, ...]
    unchecked: tuple[Unchecked, ...]
    wall_ns: int
    about: str = ""
    start_up_ns: int = 0
    start_up: str = ""
    unexplained: Unexplained | None = None
    waited_share: float | None = None
    dropped_share: float = 0.0
    taken_off_ns: int = 0
    sampled: str = ""
    is_recorded_time: bool = False
    launched_elsewhere: float = 0.0

    def foremost(self, count: int) -> tuple[Finding, ...]:
        """The first ``count`` findings, without those with negligible savings."""
        return tuple(f for f in self.found if f.saved_share is None or f.weight >= _LITTLE)[:count]

    @property
    def notes(self) -> list[str]:
        """Notes on noise and on time without a finding, one line each."""
        return self.notes_with(str)

    def notes_with(self, place_text: Callable[[Place], str]) -> list[str]:
        """Notes, one line each; ``place_text`` formats a place."""
        lines = []
        if self.sampled:
            lines.append(
                f"Recorded: {self.sampled}, to stay below the budget. Times, counts and savings "
                "refer to these. Record with a larger budget to see everything."
            )
        if self.dropped_share > FEW_DROPPED:
            lines.append(
                f"{share_text(self.dropped_share)} of the events were dropped, so findings can "
                "be missing, and callers seem to take longer than they did. `opscope summary` "
                "gives the reason."
            )
        if self.launched_elsewhere >= BUSY:
            lines.append(
                f"{share_text(self.launched_elsewhere)} of the device work has no launch in "
                "this period. Findings need the launch: choose a longer period."
            )
        if self.is_recorded_time and self.found:
            lines.append(
                "The overhead of this recording is unknown, so times and savings include it; a "
                "program of small operators saves less."
            )
        if text := busy_text(self.waited_share):
            lines.append(
                f"{text[0].upper()}{text[1:]}. Shares exclude these waits; findings below a few "
                "milliseconds may be noise."
            )
        if self.unexplained is not None and self.unexplained.share >= _MEDIUM:
            lines.append(f"{self.unexplained.text(place_text)}.")
        return lines

    @property
    def looked_at(self) -> str:
        """Sentences about the period that shares refer to, and about what is left out."""
        if not self.about:
            return ""
        left_out = f" Left out: {self.start_up}." if self.start_up else ""
        worth_saying = self.taken_off_ns >= _MEDIUM * (self.wall_ns + self.taken_off_ns)
        less = (
            f", less {time_text(self.taken_off_ns)} of profiling overhead and waits for a CPU"
            if worth_saying
            else ""
        )
        return f"Shares are of the {self.about}{less}.{left_out}"

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.found)

    def __getitem__(self, which: int | str) -> Finding:
        """The finding at a position, or with an id.

        Raises:
            IndexError, KeyError: there is none.
        """
        if isinstance(which, int):
            return self.found[which]
        for finding in self.found:
            if finding.id == which:
                return finding
        raise KeyError(which)

    def __repr__(self) -> str:
        found = "".join(f"\n  {finding!r}" for finding in self.found)
        absent, unchecked = len(self.absent), len(self.unchecked)
        return f"<Findings: {len(self)} found, {absent} absent, {unchecked} unchecked{found}>"

    def _repr_html_(self) -> str:
        rows = [
            [
                finding.title,
                "unknown" if finding.saved_ns is None else time_text(finding.saved_ns),
                "" if finding.saved_share is None else share_text(finding.saved_share),
                f"{finding.occurrences:,}",
                str(finding.places[0]) if finding.places else "",
            ]
            for finding in self.found
        ]
        note = (
            f"{len(self.absent)} other checks found nothing; {len(self.unchecked)} could not "
            "run, because their data was not recorded (see .unchecked)."
        )
        columns = ("what to change", "saves", "share", "times", "where")
        return html_table("opscope: findings", columns, rows, note, texts=(0, 4))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "wall_ns": self.wall_ns,
            "start_up_ns": self.start_up_ns,
            "unexplained": None if self.unexplained is None else self.unexplained.as_dict(),
            "waited_share": self.waited_share,
            "dropped_share": self.dropped_share,
            "sampled": self.sampled,
            "launched_elsewhere": round(self.launched_elsewhere, 6),
            "findings": [finding.as_dict() for finding in self.found],
            "absent": list(self.absent),
            "unchecked": [
                {"id": one.id, "title": one.title, "needs": one.needs} for one in self.unchecked
            ],
        }
