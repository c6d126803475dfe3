"""What becomes of a new version, from what became of the conditions on it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from opscope.analysis.diff.gate import Outcome


class Decision(str, Enum):
    """Whether the new version is accepted."""

    ACCEPT = "accept"
    REJECT = "reject"
    UNDECIDED = "undecided"


def decision_of(outcomes: Iterable[Outcome]) -> Decision:
    """``accept`` where all conditions hold, ``reject`` where one does not."""
    found = set(outcomes)
    if Outcome.FAILED in found:
        return Decision.REJECT
    return Decision.UNDECIDED if Outcome.NOT_JUDGED in found else Decision.ACCEPT
