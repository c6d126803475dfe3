"""Numbers that cannot be true, or may not be: how many of what, and by how much.

Whoever finds some adds rows to the ledger, under one source. ``timeline.doubts`` makes sentences of
them for every view, so that a new kind of doubt needs no view to know of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

DOUBTFUL = "doubtful"
"""The source of these rows in the ledger."""

OF, LONGEST_NS = ", of", ", longest in ns"
"""Behind what is doubtful: of how many it is so many, and by how much the worst is off."""


@dataclass(frozen=True)
class Doubt:
    """What is doubtful.

    Attributes:
        what: in words that follow "3 of 500".
        count: how many.
        of: of how many; 0 where that means nothing.
        longest_ns: by how much the worst is off; 0 where that means nothing.
    """

    what: str
    count: int
    of: int = 0
    longest_ns: int = 0


def doubt_rows(doubts: Iterable[Doubt]) -> list[tuple[str, str, float]]:
    """Rows of the ledger: source, what and value; none for what there is none of."""
    rows: list[tuple[str, str, float]] = []
    for doubt in doubts:
        if doubt.count:
            rows.append((DOUBTFUL, doubt.what, float(doubt.count)))
            rows += [(DOUBTFUL, doubt.what + OF, float(doubt.of))] * bool(doubt.of)
            rows += [(DOUBTFUL, doubt.what + LONGEST_NS, float(doubt.longest_ns))] * bool(
                doubt.longest_ns
            )
    return rows


def doubts_in(ledger: dict[str, dict[str, float]]) -> list[Doubt]:
    """The doubts that a ledger has rows of."""
    rows = ledger.get(DOUBTFUL, {})
    return [
        Doubt(what, int(count), int(rows.get(what + OF, 0)), int(rows.get(what + LONGEST_NS, 0)))
        for what, count in rows.items()
        if not what.endswith((OF, LONGEST_NS))
    ]
