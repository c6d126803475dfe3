"""The questions that a job can be asked, by name."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from opscope.errors import UsageError
from opscope.jobs.rollup.schema import CAUSES, LEDGER, LINES, MEMORY, OPERATORS, STEPS

_Choice = TypeVar("_Choice", bound=Enum)


class JobQuestion(str, Enum):
    """What can be asked of all processes of a job together."""

    RANKS = "ranks"
    STEPS = "steps"
    OPERATORS = "operators"
    MODULES = "modules"
    LINES = "lines"
    SPREAD = "spread"
    CAUSES = "causes"
    MEMORY = "memory"
    LOSSES = "losses"

    @property
    def meaning(self) -> str:
        """What the rows of the answer are, and their order."""
        return _MEANINGS[self]

    @property
    def tables(self) -> tuple[str, ...]:
        """Those of a rollup that it is about."""
        return _TABLES[self]


_MEANINGS = {
    JobQuestion.RANKS: "What a step of each takes without others, and in how many it is the "
    "slowest; the slowest first.",
    JobQuestion.STEPS: "Which rank takes longest for each step without others, and how much longer "
    "than the median.",
    JobQuestion.OPERATORS: "Own time of each operator and kernel over all ranks, and who has most "
    "and least of it; most time first.",
    JobQuestion.MODULES: "The same by module and part of a step.",
    JobQuestion.LINES: "The same by line of the program.",
    JobQuestion.SPREAD: "Who is furthest above the median, of each operator, module and line; "
    "the largest difference first.",
    JobQuestion.CAUSES: "What the time of each went to, beside the median; the largest "
    "difference first.",
    JobQuestion.MEMORY: "How much each had in use at its peak, by device and what it was for; most "
    "first.",
    JobQuestion.LOSSES: "What was dropped of recordings, or only a newer opscope knows, "
    "and of whose most.",
}

_TABLES = {
    JobQuestion.RANKS: (STEPS.name,),
    JobQuestion.STEPS: (STEPS.name,),
    JobQuestion.OPERATORS: (OPERATORS.name,),
    JobQuestion.MODULES: (OPERATORS.name,),
    JobQuestion.LINES: (LINES.name,),
    JobQuestion.SPREAD: (OPERATORS.name, LINES.name),
    JobQuestion.CAUSES: (CAUSES.name,),
    JobQuestion.MEMORY: (MEMORY.name,),
    JobQuestion.LOSSES: (LEDGER.name,),
}


def one_of(kind: type[_Choice], value: str, what: str) -> _Choice:
    """The member of an enumeration with this value; UsageError where there is none."""
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(one.value for one in kind)
        raise UsageError(f"There is no {what} {value!r}. Choose one of: {known}.") from None
