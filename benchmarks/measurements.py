"""``python -m benchmarks.measurements``: the newest figures of ``history`` into the page.

Each run of ``python -m benchmarks`` adds a file there. A figure that several files have is that of
the newest one.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.report import as_table

HISTORY = Path(__file__).parent / "history"
PAGE = Path(__file__).parent.parent / "docs" / "measurements.md"
_MOST_APART = 3
"""Ratios of rounds: a figure where they differ by more says nothing."""

BEGIN, END = "<!-- python -m benchmarks.measurements -->\n", "<!-- end -->\n"


def main() -> None:
    """Rewrite what is between the marks."""
    PAGE.write_text(with_figures(PAGE.read_text()))


def with_figures(page: str) -> str:
    """The page with the figures that ``HISTORY`` has now."""
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
    """Differences of two times may be below 0 where the machine changed between them."""
    if min([*figure.opscope, *figure.other, 1]) <= 0:
        return False
    return not figure.ratios or max(figure.ratios) <= _MOST_APART * min(figure.ratios)


if __name__ == "__main__":
    main()
