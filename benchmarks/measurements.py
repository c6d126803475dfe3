"""``python -m benchmarks.measurements``: writes the newest figures of ``history`` to the page.

Each run of ``python -m benchmarks`` adds a file to ``history``. If several files have a figure, the
newest file counts.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.report import as_table

HISTORY = Path(__file__).parent / "history"
PAGE = Path(__file__).parent.parent / "docs" / "measurements.md"
_MOST_APART = 3
"""Largest permitted quotient of the ratios of two rounds; figures above it are excluded."""

BEGIN, END = "<!-- python -m benchmarks.measurements -->\n", "<!-- end -->\n"


def main() -> None:
    """Replace the text between the marks."""
    PAGE.write_text(with_figures(PAGE.read_text()))


def with_figures(page: str) -> str:
    """The page with the current figures of ``HISTORY``."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + _section() + END + rest.split(END)[1]


def _section() -> str:
    newest: dict[tuple[str, str, str], tuple[str, Figure]] = {}
    for file in sorted(HISTORY.glob("*.json")):
        saved = json.loads(file.read_text())
        for fields in saved["figures"]:
            figure = Figure.of_dict(fields)
            newest[figure.name, figure.workload, figure.compared_with] = saved["machine"], figure
    by_machine: dict[str, list[Figure]] = {}
    for machine, figure in newest.values():
        by_machine.setdefault(machine, []).append(figure)
    return "\n" + "".join(_part(machine, of) for machine, of in by_machine.items())


def _part(machine: str, figures: list[Figure]) -> str:
    steady = [one for one in figures if _is_steady(one)]
    excluded = len(figures) - len(steady)
    note = f"{excluded} figures are excluded: their rounds differ too much.\n\n" if excluded else ""
    return f"{machine}.\n\n{as_table(steady)}\n\n{note}"


def _is_steady(figure: Figure) -> bool:
    """Whether rounds agree. Differences of times are negative if the machine's speed changed."""
    if min([*figure.opscope, *figure.other, 1]) <= 0:
        return False
    return not figure.ratios or max(figure.ratios) <= _MOST_APART * min(figure.ratios)


if __name__ == "__main__":
    main()
