"""Decision on a new version of a program, from the outcomes of the gate's conditions."""

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
    """``accept`` if all conditions passed, ``reject`` if one failed, else ``undecided``."""
    results = set(outcomes)
    if Outcome.FAILED in results:
        return Decision.REJECT
    return Decision.UNDECIDED if Outcome.NOT_JUDGED in results else Decision.ACCEPT
