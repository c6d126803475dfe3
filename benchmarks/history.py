"""The history of figures: a file for each run that was kept, and a page that draws them.

    python -m benchmarks --keep

A file has when, where and of which commit the figures are, and of each figure the medians. The
first two are of tables that docs/measurements.md had, with the moment of the commit that brought
them.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import Figure

FOLDER = Path(__file__).parent / "history"
_WIDTH, _HEIGHT, _MARGIN = 240, 40, 4


def keep(figures: Iterable[Figure], torch_version: str, folder: Path = FOLDER) -> Path:
    """Write what was measured now into ``folder``; gives the file."""
    moment = datetime.now(timezone.utc)
    run = {
        "when": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": _commit(),
        "machine": _processor(),
        "python": platform.python_version(),
        "torch": torch_version,
        "figures": [_row(figure) for figure in figures],
    }
    folder.mkdir(exist_ok=True)
    path = folder / f"{moment:%Y-%m-%dT%H%M%S}.json"
    path.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    return path


def page(folder: Path = FOLDER) -> str:
    """All kept runs as a page in Markdown, with a drawing of each figure that has several."""
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return "\n".join(_lines(runs)) + "\n"


def _row(figure: Figure) -> dict[str, Any]:
    ratios = figure.ratios if figure.other else []
    return {
        "name": figure.name,
        "workload": figure.workload,
        "unit": figure.unit,
        "opscope": median(figure.opscope),
        "other": median(figure.other) if figure.other else None,
        "compared_with": figure.compared_with,
        "ratio": median(ratios) if ratios else None,
        "target": figure.target,
    }


def _lines(runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "# History of the measurements\n"
    if not runs:
        yield "No run was kept yet."
        return
    yield (
        "What `make bench` measured, run by run: the ratio of opscope to what it is compared with, "
        "lower is better. The dashed line is the target. Machines are shared and noisy; a step "
        "that stays is a change, a peak is not. `python -m benchmarks --keep` adds a run.\n"
    )
    yield "| run | commit | machine | Python | torch |\n|---|---|---|---|---|"
    for number, run in enumerate(runs, 1):
        cells = (f"{number}: {run['when']}", *(run[key] for key in ("commit", "machine", "python")))
        yield f"| {' | '.join(map(str, (*cells, run['torch'])))} |"
    yield "\n| figure | of | first | last | runs |\n|---|---|---|---|---|"
    for (name, workload, other), points in _by_figure(runs).items():
        ratios = [ratio for _, ratio, _ in points]
        drawn = _drawing(points, len(runs)) if len(points) > 1 else ""
        first_and_last = f"{ratios[0]:.3g} | {ratios[-1]:.3g}"
        yield f"| {name}, against {other} | {workload} | {first_and_last} | {drawn} |"


Points = list[tuple[int, float, "float | None"]]
"""Number of the run, ratio, target."""


def _by_figure(runs: Sequence[dict[str, Any]]) -> dict[tuple[str, str, str], Points]:
    figures: dict[tuple[str, str, str], Points] = {}
    for number, run in enumerate(runs):
        for row in run["figures"]:
            if row["ratio"] is not None:
                key = (row["name"], row["workload"], row["compared_with"])
                figures.setdefault(key, []).append((number, row["ratio"], row["target"]))
    return figures


def _drawing(points: Points, runs: int) -> str:
    """A line through the ratios, from 0 up, as SVG that stands in a cell of a table."""
    target = points[-1][2]
    top = max([ratio for _, ratio, _ in points] + ([target] if target else [])) or 1.0

    def x(number: int) -> float:
        return _MARGIN + (_WIDTH - 2 * _MARGIN) * number / max(runs - 1, 1)

    def y(ratio: float) -> float:
        return _HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * ratio / top

    shown = escape(", ".join(f"{number + 1}: {ratio:.3g}" for number, ratio, _ in points))
    line = " ".join(f"{x(number):.1f},{y(ratio):.1f}" for number, ratio, _ in points)
    dots = "".join(
        f'<circle cx="{x(number):.1f}" cy="{y(ratio):.1f}" r="2"/>' for number, ratio, _ in points
    )
    goal = ""
    if target:
        at = f'x1="0" x2="{_WIDTH}" y1="{y(target):.1f}" y2="{y(target):.1f}"'
        goal = f'<line {at} stroke="currentColor" stroke-dasharray="4 3" opacity="0.5"/>'
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img"><title>{shown}</title>{goal}'
        f'<polyline points="{line}" fill="none" stroke="currentColor"/>'
        f'<g fill="currentColor">{dots}</g></svg>'
    )


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=9"]
    done = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.machine()
