"""The ledger: what was requested, recorded and lost, for every source.

Doubts are numbers that may not be true. Code that finds some adds rows under one source, of which
``timeline.doubts`` makes sentences for every view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

LOSS = "dropped"
"""What rows begin with that count what was asked for and is not there."""

NEWER = "newer opscope"
"""The source of counts of what only a newer opscope knows."""


class Ledger(dict[str, dict[str, float]]):
    """``{source: {what: value}}``."""

    def losses(self, source: str | None = None) -> Iterator[tuple[str, str, float]]:
        """Source, what and how many of all that was lost; of one source alone where it is named."""
        for name, counts in self.items():
            for what, value in counts.items():
                if value > 0 and what.startswith(LOSS) and source in (None, name):
                    yield name, what, value

    def lost(self, source: str | None = None) -> float:
        """How many were lost, of all sources or of one."""
        return sum(count for *_, count in self.losses(source))

    def missing(self) -> float:
        """How many no answer is about: they were lost, or only a newer opscope knows them."""
        newer = self.get(NEWER, {})
        others = (count for what, count in newer.items() if not what.startswith(LOSS))
        return self.lost() + sum(count for count in others if count > 0)


WITHOUT_DURATION = "durations that are missing or negative, taken for 0"
"""Of the source ``import``."""

OVERLAPS = "spans that overlap others of their thread"
OVERLAP_NS = "ns in which they do, which count for the span that began last"
"""Of the source ``import``; overlaps within the rounding of the file's times are none."""

NOT_SHOWN = "not shown: "
"""Of the source ``import``; what follows is in the file, and no table is for it."""

END_MISSING = "the end of the file is missing"
"""Of the source ``import``: its writer was killed, or the disk was full."""

NOT_EXPORTED = "rows that this format cannot hold: "
"""Of the source ``import``; a table of the recording follows, which opscope wrote the file of."""

KIND_COST = "cost_ns of one "
"""Of the source ``recorder``, with the options of the recording; a ``CostKind`` follows."""


class CostKind(str, Enum):
    """What recording costs by the piece."""

    OPERATOR = "operator"
    INNER_OPERATOR = "operator in another"
    TENSOR = "tensor argument"
    SCALAR = "other argument"
    ALLOCATION = "allocation or free"
    PYTHON_CALL = "Python call"
    C_CALL = "C call"


RECORDED_FOR = "share of time recorded: "
"""Of the source ``governor``, what a level's row begins with."""

NOT_KNOWN_MS = "milliseconds before its end of which it is not known what was left out"
"""Of the source ``flight recorder``."""

RECORDER_PREFIX = "opscope: "
"""What spans begin with that a recorder adds to say what it did."""


def recorded_for(ledger: dict[str, dict[str, float]]) -> str:
    """What was recorded for part of the time only, to stay below a budget; empty for nothing."""
    shares = [
        f"{what.removeprefix(RECORDED_FOR)} for {share:.0%}"
        for what, share in ledger.get("governor", {}).items()
        if what.startswith(RECORDED_FOR) and share < 1
    ]
    return f"{', '.join(shares)} of the time only" if shares else ""


PROCESSOR = "processor"
COMPUTED = "computed, of the thread that opened it; ns"
WAITED = "waited for a CPU; ns"

DOUBTFUL = "doubtful"
"""The source of these rows in the ledger."""

OF, LONGEST_NS = ", of", ", longest in ns"
"""Suffixes of a doubt: affected and total counts, and the largest error."""


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
    """Rows of the ledger: source, what and value; zero counts have no row."""
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
