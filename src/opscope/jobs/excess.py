"""Where in the program one rank spends more of a step than another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from opscope.columns.causes import Cause
from opscope.jobs.rollup.places import ProcessPlaces, ProgramPlace

_BETWEEN = "between them"


@dataclass(frozen=True)
class Excess:
    """The part of a step in which a rank differs most, and the place there.

    Attributes:
        phase: ``forward``, ``backward``, ``optimizer``, ``data loading``, ``garbage collection``;
            empty for what is between them.
        phase_ns: how much longer it takes there, a step.
        place: ``file:line`` of the program; empty where that was not recorded.
        function: of the program, at that place.
        module: path of the module; empty for none.
        operator: the outermost one that it is in; empty for none.
        place_ns: how much longer it takes at that place, a step.
    """

    phase: str
    phase_ns: float
    place: str
    function: str
    module: str
    operator: str
    place_ns: float

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold."""
        return {
            "phase": self.phase or _BETWEEN,
            "phase_ns": round(self.phase_ns),
            "place": self.place,
            "function": self.function,
            "module": self.module,
            "operator": self.operator,
            "place_ns": round(self.place_ns),
        }

    def __str__(self) -> str:
        words = [f"in {self.phase}" if self.phase else ""]
        if self.place:
            words.append(f"at {self.place}" + (f" ({self.function})" if self.function else ""))
        words.append(f"in module {self.module}" if self.module else "")
        words.append(f"in {self.operator}" if self.operator else "")
        return ", ".join(word for word in words if word)


def find_excess(slow: ProcessPlaces, other: ProcessPlaces, cause: Cause) -> Excess | None:
    """Where the slow process spends more time of a cause than the other.

    Of waiting for a processor, which strikes anywhere, the phase alone is told.

    Returns:
        None where neither spends more.
    """
    more = _of_a_step(slow, cause)
    for place, time in _of_a_step(other, cause).items():
        more[place] = more.get(place, 0.0) - time
    by_phase: dict[str, float] = {}
    for place, time in more.items():
        by_phase[place.phase] = by_phase.get(place.phase, 0.0) + time
    if not by_phase or max(by_phase.values()) <= 0:
        return None
    phase = max(by_phase, key=lambda one: by_phase[one])
    if cause is Cause.DESCHEDULED:
        return Excess(phase, by_phase[phase], "", "", "", "", 0.0)
    places = {place: time for place, time in more.items() if place.phase == phase}
    best = max(places, key=lambda place: places[place])
    at = replace(best, line=slow.own_line.get(best, best.line))
    return Excess(
        phase=phase,
        phase_ns=by_phase[phase],
        place=str(at),
        function=best.function,
        module=best.module,
        operator=best.operator,
        place_ns=places[best],
    )


def _of_a_step(places: ProcessPlaces, cause: Cause) -> dict[ProgramPlace, float]:
    found = places.time_ns.get(cause, {})
    return {place: time_ns / max(places.steps, 1) for place, time_ns in found.items()}
