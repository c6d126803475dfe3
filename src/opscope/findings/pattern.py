"""Declaration of a check: needed data, search function, measurement of its saving."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from opscope.analysis.sites import Place
from opscope.columns.causes import Cause
from opscope.findings.saving import Saves
from opscope.findings.status import Status
from opscope.findings.subject import FEW_DROPPED, Subject, Values, dropped_share


class Needs(Enum):
    """Data that a recording may lack; the value says how to record it."""

    SHAPES = "Record argument shapes: record_shapes=True, or --shapes."
    MEMORY = "Record memory as well as shapes: profile_memory=True, or --memory."
    IDENTITY = "Record with opscope: this file does not identify tensors."
    STACKS = "Record Python calls: with_stack=True, or --stack."
    LIBRARIES = "Record the Python calls of libraries as well: with_stack=True, or --stack."
    LAYERS = "Record modules or the Python calls of libraries: with_modules, or --modules, --stack."
    MODULES = "Record modules: with_modules=True, or --modules."
    DEVICE = "This check is for programs that use a GPU; the recording shows none."
    KERNELS = "Record GPU activity, where torch sees a GPU."
    SAMPLES = (
        "Record with opscope.profile or opscope run: this file does not say what threads wait for."
    )
    EVENTS = "Record fewer steps or allow more memory: many events were dropped."


TENSORS = (Needs.SHAPES, Needs.IDENTITY, Needs.MEMORY)
"""Data for following a tensor from operator to operator."""

SAMPLES_LOST = "Thread samples are missing: the process was killed, or it ran too short."

_NOT_HERE = {
    Needs.SHAPES: (
        ("shapes",),
        "Argument shapes were recorded, but no operator in this period has tensors.",
    ),
    Needs.MEMORY: (("memory",), "Memory was recorded, but this period has no allocation."),
    Needs.MODULES: (("modules",), "Modules were recorded, but this period has no module call."),
    Needs.LAYERS: (("modules",), "Modules were recorded, but this period has no module call."),
    Needs.STACKS: (
        ("functions", "own_functions", "stack"),
        "Python calls were recorded, but this period has none of the program's own.",
    ),
    Needs.SAMPLES: (("thread_samples",), SAMPLES_LOST),
}
"""Messages if the data was recorded, but the selected period has none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Occurrences of a pattern.

    Attributes:
        events: row in events of each occurrence, shape (occurrences,), at least one.
        explanation: what was seen, with numbers.
        saved_ns: saving of the fix; None if this recording cannot tell.
        saved_by: how it was estimated, or why it is unknown.
        event_time_ns: time of each occurrence, shape (occurrences,); durations by default.
        time_ns: time of all occurrences; by default the sum of these.
        advice: replaces the pattern's advice in a special case.
        places: locations, most time first; by default those of the events.
        saved_bytes: saving of peak memory; None if the fix is not about memory.
        saved_bytes_share: the same as a share of the peak.
        saves: the time that ``saved_ns`` refers to, if devices take part.
        status: replaces the pattern's status in a special case.
    """

    events: Values
    explanation: str
    saved_ns: int | None
    saved_by: str
    event_time_ns: Values | None = None
    time_ns: int | None = None
    advice: str = ""
    places: tuple[Place, ...] = ()
    saved_bytes: int | None = None
    saved_bytes_share: float = 0.0
    saves: Saves = Saves.EVENTS
    status: Status | None = None


@dataclass(frozen=True)
class Measured:
    """A measured saving.

    Attributes:
        saved_ns: saving over the whole recording.
        how: what was measured.
    """

    saved_ns: int
    how: str


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """One check.

    Attributes:
        id: stable across releases.
        title: one line.
        advice: what to change.
        find: checks a trace; returns None if the pattern is absent.
        needs: data without which the check cannot run.
        helped_by: optional data: if the check finds nothing without it, the result names it.
        measure: runs both variants with torch, if this machine can.
        link: further reading.
        status: status of a program whose main finding this is.
        cause: its cause of time; if the pattern is absent, this cause does not make a program slow.
        worth_saying: least saving, as a share of the time.
        is_general: its saving is reduced by the savings of more specific findings.
    """

    id: str
    title: str
    advice: str
    find: Callable[[Subject], Evidence | None]
    needs: tuple[Needs, ...] = ()
    helped_by: tuple[Needs, ...] = ()
    measure: Callable[[Subject, Evidence], Measured | None] | None = None
    link: str = ""
    status: Status = Status.OPERATORS
    cause: Cause | None = None
    worth_saying: float = 0.0
    is_general: bool = False

    def evidence(self, subject: Subject) -> Evidence | None:
        """Evidence of the pattern; None if absent, not visible here, or not worth mentioning."""
        if missing(subject, self.needs) or not len(subject.trace.events):
            return None
        found = self.find(subject)
        if found is None or found.saved_ns is None:
            return found
        return found if found.saved_ns >= self.worth_saying * subject.wall_ns else None


def missing(subject: Subject, needs: tuple[Needs, ...]) -> str:
    """Sentences about missing data; empty if all ``needs`` are met.

    If data was recorded but the period has none, the sentence says so.
    """
    options = subject.recorded.metadata.get("options") or {}

    def said(need: Needs) -> str:
        recorded_with, not_here = _NOT_HERE.get(need, ((), ""))
        return not_here if any(options.get(name) for name in recorded_with) else need.value

    return " ".join(said(need) for need in needs if not subject.once(_PRESENT[need]))


def _has(table: str) -> Callable[[Subject], bool]:
    """Whether a table of the recording has any rows."""

    def has_rows(subject: Subject) -> bool:
        return len(subject.recorded.table(table)) > 0

    return has_rows


def has_tensor_identity(subject: Subject) -> bool:
    """Whether the recording identifies tensors; Chrome files have only sizes."""
    tensors = subject.recorded.table("tensors")
    columns = (tensors["storage"] != 0, tensors["impl"] != 0, tensors["tensor_id"] >= 0)
    return not len(tensors) or any(bool(column.any()) for column in columns)


def has_calls_of_libraries(subject: Subject) -> bool:
    """Whether more than the program's own functions were recorded."""
    options = subject.recorded.metadata.get("options") or {}
    is_without = options.get("own_functions") and not (
        options.get("functions") or options.get("stack")
    )
    return len(subject.trace.table("python_calls")) > 0 and not is_without


_PRESENT: dict[Needs, Callable[[Subject], bool]] = {
    Needs.SHAPES: _has("tensors"),
    Needs.MEMORY: _has("allocations"),
    Needs.IDENTITY: has_tensor_identity,
    Needs.STACKS: lambda subject: (
        len(subject.recorded.table("python_calls")) > 0 and subject.sites.known
    ),
    Needs.LIBRARIES: has_calls_of_libraries,
    Needs.LAYERS: lambda subject: (
        has_calls_of_libraries(subject) or len(subject.recorded.table("modules")) > 0
    ),
    Needs.MODULES: _has("modules"),
    Needs.DEVICE: lambda subject: subject.has_device,
    Needs.KERNELS: _has("gpu"),
    Needs.SAMPLES: _has("thread_samples"),
    Needs.EVENTS: lambda subject: dropped_share(subject.recorded) <= FEW_DROPPED,
}
