"""The ledger: requested, recorded and lost items of every source.

Doubts mark numbers that may be wrong. Code that detects such numbers adds rows under one source;
``timeline.doubts`` converts the rows to sentences for every view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

LOSS = "dropped"  # prefix of rows that count requested data that is missing
NEWER = "newer opscope"  # source of counts of data that only a newer opscope knows


class Ledger(dict[str, dict[str, float]]):
    """``{source: {what: value}}``."""

    def losses(self, source: str | None = None) -> Iterator[tuple[str, str, float]]:
        """Source, what and count of every loss, of all sources or one."""
        for name, counts in self.items():
            for what, value in counts.items():
                if value > 0 and what.startswith(LOSS) and source in (None, name):
                    yield name, what, value

    def lost(self, source: str | None = None) -> float:
        """Number of lost items of all sources or of one."""
        return sum(count for *_, count in self.losses(source))

    def missing(self) -> float:
        """Number of items missing from all answers: lost, or known only to a newer opscope."""
        newer = self.get(NEWER, {})
        others = (count for what, count in newer.items() if not what.startswith(LOSS))
        return self.lost() + sum(count for count in others if count > 0)


WITHOUT_DURATION = "missing or negative durations, counted as 0"
"""Row of the source ``import``."""

OVERLAPS = "spans that overlap others of their thread"
OVERLAP_NS = "ns of overlap, counted for the span that began last"
"""Rows of the source ``import``; overlaps within the rounding of the file's times do not count."""

NOT_SHOWN = "not shown: "
"""Prefix of rows of the source ``import``: parts of the file for which no table exists."""

END_MISSING = "the end of the file is missing"
"""Row of the source ``import``: the file's writer was killed, or the disk was full."""

NOT_EXPORTED = "rows that this format cannot hold: "
"""Prefix of rows of the source ``import``, before a table that opscope's export left out."""

KIND_COST = "cost_ns of one "
"""Prefix of rows of the source ``recorder``, before a ``CostKind``; for the recording's options."""


class CostKind(str, Enum):
    """Unit of recording cost."""

    OPERATOR = "operator"
    INNER_OPERATOR = "operator in another"
    TENSOR = "tensor argument"
    SCALAR = "other argument"
    ALLOCATION = "allocation or free"
    PYTHON_CALL = "Python call"
    C_CALL = "C call"


RECORDED_FOR = "share of time recorded: "
"""Prefix of rows of the source ``governor``, before a level."""

NOT_KNOWN_MS = "milliseconds at its end for which omissions are unknown"
"""Row of the source ``flight recorder``."""

RECORDER_PREFIX = "opscope: "  # prefix of spans that a recorder adds about its own work


def recorded_for(ledger: dict[str, dict[str, float]]) -> str:
    """Sentence about data recorded for only a part of the time because of a budget; else empty."""
    shares = [
        f"{what.removeprefix(RECORDED_FOR)} for {share:.0%}"
        for what, share in ledger.get("governor", {}).items()
        if what.startswith(RECORDED_FOR) and share < 1
    ]
    return f"{', '.join(shares)} of the time only" if shares else ""


DOUBTFUL = "doubtful"  # source of doubts in the ledger

OF, LONGEST_NS = ", of", ", longest in ns"
"""Suffixes of a doubt's rows: the total count, and the largest error."""


@dataclass(frozen=True)
class Doubt:
    """Statement that some data is implausible.

    Attributes:
        what: words that follow "3 of 500".
        count: number affected.
        of: total number; 0 if meaningless.
        longest_ns: largest error; 0 if meaningless.
    """

    what: str
    count: int
    of: int = 0
    longest_ns: int = 0


def doubt_rows(doubts: Iterable[Doubt]) -> list[tuple[str, str, float]]:
    """Rows of the ledger: source, what and value; none for zero counts."""
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
    """Doubts in the rows of a ledger."""
    rows = ledger.get(DOUBTFUL, {})
    return [
        Doubt(what, int(count), int(rows.get(what + OF, 0)), int(rows.get(what + LONGEST_NS, 0)))
        for what, count in rows.items()
        if not what.endswith((OF, LONGEST_NS))
    ]
