"""How findings say what they leave unexplained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opscope.analysis.sites import Place
from opscope.base.quantity_text import share_text


@dataclass(frozen=True)
class Unexplained:
    """Time of the main thread outside all findings that are worth something.

    Attributes:
        time_ns: in all.
        share: of the time looked at.
        parts: by whose it is, most first: in words, nanoseconds.
        places: lines of the program with most of it.
    """

    time_ns: int
    share: float
    parts: tuple[tuple[str, int], ...]
    places: tuple[Place, ...]

    def __str__(self) -> str:
        return self.text()

    def text(self, place_text: Callable[[Place], str] = str) -> str:
        """In words; ``place_text`` says how a place reads."""
        parts = ", ".join(
            f"{what} {share_text(time_ns / max(self.time_ns, 1))}"
            for what, time_ns in self.parts[:3]
        )
        text = f"{share_text(self.share)} of the time is not explained by a finding: {parts}"
        if not self.places:
            return text
        return f"{text}; most at {', '.join(map(place_text, self.places))}"

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold."""
        return {
            "time_ns": self.time_ns,
            "share": round(self.share, 6),
            "parts": [{"what": what, "time_ns": time_ns} for what, time_ns in self.parts],
            "places": [place.as_dict() for place in self.places],
        }
