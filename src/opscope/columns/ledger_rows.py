"""What rows of the ledger and spans of ours are called that several parts of opscope know."""

from __future__ import annotations

from enum import Enum

WITHOUT_DURATION = "durations that are missing or negative, taken for 0"
"""Of the source ``import``."""

OVERLAPS = "spans that overlap others of their thread"
OVERLAP_NS = "ns in which they do, which count for the span that began last"
"""Of the source ``import``; overlaps within the rounding of the file's times are none."""

NOT_SHOWN = "not shown: "
"""Of the source ``import``; what follows is in the file, and no table is for it."""

END_MISSING = "the end of the file is missing"
"""Of the source ``import``: its writer was killed, or the disk was full."""

NOT_EXPORTED = "rows that such a file cannot hold: "
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
