"""The named queries on a job."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from opscope.errors import UsageError
from opscope.jobs.rollup.schema import CAUSES, LEDGER, LINES, MEMORY, OPERATORS, STEPS

_Choice = TypeVar("_Choice", bound=Enum)


class JobQuestion(str, Enum):
    """Queries about all processes of a job."""

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
        """Meaning and order of the rows of the answer."""
        return _MEANINGS[self]

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the rollup tables that the query reads."""
        return _TABLES[self]


_MEANINGS = {
    JobQuestion.RANKS: "Own time of a step of each rank, without waiting for others, and in how "
    "many steps it is the slowest; slowest first.",
    JobQuestion.STEPS: "The rank with the longest own time of each step, and how much longer it is "
    "than the median.",
    JobQuestion.OPERATORS: "Own time of each operator and kernel over all ranks, with the largest "
    "and smallest rank; most time first.",
    JobQuestion.MODULES: "The same by module and phase of a step.",
    JobQuestion.LINES: "The same by line of the program.",
    JobQuestion.SPREAD: "The rank furthest above the median, for each operator, module and line; "
    "largest difference first.",
    JobQuestion.CAUSES: "Time of each rank by cause, compared with the median; largest difference "
    "first.",
    JobQuestion.MEMORY: "Peak memory of each rank, by device and category; largest first.",
    JobQuestion.LOSSES: "Dropped events, and data that only a newer opscope can read, with the "
    "rank that lost most.",
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
    """The enumeration's member with this value; UsageError without one."""
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(one.value for one in kind)
        raise UsageError(f"There is no {what} {value!r}. Choose one of: {known}.") from None
