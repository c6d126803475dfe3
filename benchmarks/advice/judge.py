"""How right the findings about one program are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from benchmarks.advice.program import Program

FACTOR = 2.0
"""A promised saving is right if it is off by no more than this."""
LITTLE = 0.3
"""A smaller share of the estimate is hardly any saving."""


@dataclass(frozen=True)
class Verdict:
    """Of one recording.

    Attributes:
        program: its name.
        is_tuned: it has no fault.
        rank: of the finding that names the fault, from 1; 0: none does.
        first: id and severity of the first finding; empty without any.
        line_is_first: the first finding names the line of the fault first.
        promised: share of the time that the right finding promises (bytes, of a fault that costs
            memory); -1 for none.
        real: what the fix saves.
        real_high: at most, by the 95 % interval of that.
        wrong: for a tuned program, findings of high or medium severity.
    """

    program: str
    is_tuned: bool
    rank: int
    first: str
    line_is_first: bool
    promised: float
    real: float
    real_high: float
    wrong: tuple[str, ...]

    @property
    def saves_little(self) -> bool:
        """Whether the fix saves hardly anything of what was promised, for all that is known."""
        return not self.is_tuned and self.real_high < LITTLE * self.promised

    @property
    def is_close(self) -> bool:
        """Whether what was promised is within the factor of what is saved."""
        low, high = sorted((max(self.promised, 0.0), self.real))
        return low > 0 and high / low <= FACTOR

    def __str__(self) -> str:
        if self.is_tuned:
            return f"{self.program:34} {'wrong: ' + ', '.join(self.wrong) if self.wrong else 'ok'}"
        return (
            f"{self.program:34} rank {self.rank} line {'first' if self.line_is_first else '-':5} "
            f"promised {self.promised:8.3g} real {self.real:8.3g} "
            f"{'ok' if self.is_close else 'OFF'}   {self.first}"
        )


def judge(program: Program, real: dict[str, float], found: dict[str, Any]) -> Verdict:
    """Compare what was found with what is known."""
    findings = found["findings"]
    ranks = [i for i, one in enumerate(findings, 1) if one["id"] in program.findings]
    # Where several ids would do, one that is at the line says what this fix saves.
    ranks.sort(key=lambda i: not _is_at_the_line(program, findings[i - 1]["places"]))
    right = findings[ranks[0] - 1] if ranks else None
    promised = right["saved_bytes" if program.grows else "saved_share"] if right else None
    serious = [one for one in findings if one["severity"] != "low"]
    unit = "bytes" if program.grows else "share"
    return Verdict(
        program=program.name,
        is_tuned=not program.findings,
        rank=ranks[0] if ranks else 0,
        first=_described(findings[0]) if findings else "",
        line_is_first=bool(findings) and _is_at_the_line(program, findings[0]["places"]),
        promised=-1.0 if promised is None else promised,
        real=real[unit],
        real_high=real["high" if unit == "share" else unit],
        wrong=tuple(map(_described, serious)) if not program.findings else (),
    )


def _described(finding: dict[str, Any]) -> str:
    place: dict[str, Any] = finding["places"][0] if finding["places"] else {"file": "", "line": 0}
    share = finding["saved_share"]
    saved = "?" if share is None else f"{share:.0%}"
    return f"{finding['id']} {saved} {os.path.basename(place['file'])}:{place['line']}"


def _is_at_the_line(program: Program, places: list[dict[str, Any]]) -> bool:
    if not places:
        return False
    same_file = os.path.basename(places[0]["file"]) == os.path.basename(program.file)
    return same_file and places[0]["line"] in program.lines
