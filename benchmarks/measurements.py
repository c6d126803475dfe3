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
    parts = (f"{machine}.\n\n{as_table(of)}\n\n" for machine, of in by_machine.items())
    return "\n" + "".join(parts)


if __name__ == "__main__":
    main()
