"""Figures as Markdown, as JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from datetime import date

import torch

import opscope
from benchmarks.figures import Figure, median_of

HEADINGS = ("figure", "of", "opscope", "compared with", "ratio", "floor", "target", "")
FLOOR = (
    "floor: the ratio that an empty callback in opscope's place has, so no recorder can have less"
)


def machine() -> str:
    """When and where the figures are from; the load is that of the last five minutes."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            model = next(
                line.split(":")[1].strip() for line in file if line.startswith("model name")
            )
    except (OSError, StopIteration):
        pass
    return (
        f"{date.today()}, {model}, {os.cpu_count()} CPUs, load {os.getloadavg()[1]:.1f}, "
        f"{platform.system()}; Python {platform.python_version()}, torch {torch.__version__}, "
        f"opscope {opscope.__version__}, one thread"
    )


def as_markdown(figures: Sequence[Figure]) -> str:
    """For a terminal."""
    return "\n".join([f"{machine()}.", "", as_table(figures), "", f"{FLOOR}."])


def as_table(figures: Sequence[Figure]) -> str:
    """A row for each."""
    rows = [HEADINGS, ["---"] * len(HEADINGS), *map(_cells, figures)]
    return "\n".join(map(_row, rows))


def as_json(figures: Sequence[Figure]) -> str:
    """For a program; a line for each figure."""
    command = json.dumps(" ".join(["python -m benchmarks", *sys.argv[1:]]))
    rows = ",\n".join(json.dumps(figure.as_dict()) for figure in figures)
    return (
        f'{{"machine": {json.dumps(machine())},\n"command": {command},\n"figures": [\n{rows}\n]}}'
    )


def _cells(figure: Figure) -> list[str]:
    compared = figure.compared_with
    return [
        figure.name,
        figure.workload,
        f"{_value(median_of(figure.opscope))} {figure.unit}",
        f"{_value(median_of(figure.other))} ({compared})" if compared else "",
        _ratio(figure),
        "" if figure.floor_ratio is None else f"{figure.floor_ratio:.2f}",
        _target(figure),
        {True: "met", False: "missed", None: ""}[figure.met],
    ]


def _ratio(figure: Figure) -> str:
    if figure.ratio is None:
        return ""
    low, high = min(figure.ratios), max(figure.ratios)
    digits = 4 if figure.ratio < 0.02 else 2 if figure.ratio < 0.995 else 3
    return f"{figure.ratio:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def _target(figure: Figure) -> str:
    parts = [] if figure.target is None else [f"≤ {figure.target:.4g}"]
    parts += [] if figure.limit is None else [f"≤ {figure.limit:g} {figure.unit}"]
    return ", ".join(parts)


def _value(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
