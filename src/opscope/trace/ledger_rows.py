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


SAMPLED_STEPS = "steps with operators recorded"
SAMPLED_OUTERMOST = "steps with outermost operators alone recorded"
SAMPLED_OF = "steps in all, of which operators were recorded in some"
"""Of the source ``governor``."""

NOT_KNOWN_MS = "milliseconds before its end of which it is not known what was left out"
"""Of the source ``flight recorder``."""

RECORDER_PREFIX = "opscope: "
"""What spans begin with that a recorder adds to say what it did."""


def sampled_steps(ledger: dict[str, dict[str, float]]) -> str:
    """Of how many steps there are operators, where not of all; empty otherwise."""
    governor = ledger.get("governor", {})
    if SAMPLED_STEPS not in governor:
        return ""
    recorded, steps = governor[SAMPLED_STEPS], governor.get(SAMPLED_OF, 0)
    outermost = governor.get(SAMPLED_OUTERMOST, 0)
    more = f", outermost ones alone of {outermost:,.0f} more" if outermost else ""
    return f"operators of {recorded:,.0f} of {steps:,.0f} steps only{more}"
