"""A comparison as one HTML page without scripts, with a flame graph of each side."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from opscope.analysis.diff.gate import Judgement
from opscope.analysis.diff.places import comparable_name
from opscope.analysis.diff.result import Diff
from opscope.analysis.diff.step_costs import Side, on_other_threads, steady_steps
from opscope.base.quantity_text import time_text
from opscope.columns.trace_data import TraceData
from opscope.report.diff_tables import DiffTable, closing, headline, tables
from opscope.report.packing import shown
from opscope.report.page import bundled, policy_hash
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.steps import Steps
from opscope.timeline.tree.event_tree import depths, levels
from opscope.timeline.tree.frame_text import own_texts
from opscope.timeline.tree.line_nesting import line_nesting

Path = tuple[str, ...]

_LEAST_SHARE = 0.001
"""Smallest share of a step that is shown."""


@dataclass(frozen=True)
class Flame:
    """Flame graph of one side: the mean of all its recordings."""

    step_ns: float  # mean step time
    time_ns: dict[Path, float]  # mean time per step by call path; callers come before callees


def flame_of(traces: Sequence[TraceData]) -> Flame:
    """The flame graph of all calls on the threads that make steps; empty without steps."""
    flames = [_recorded_flame(trace) for trace in traces]
    time_ns: dict[Path, float] = {}
    for flame in flames:
        for path, ns in flame.time_ns.items():
            time_ns[path] = time_ns.get(path, 0.0) + ns / len(flames)
    step_ns = sum(flame.step_ns for flame in flames) / len(flames)
    least_ns = _LEAST_SHARE * step_ns
    ordered = sorted(time_ns, key=len)
    return Flame(step_ns, {path: time_ns[path] for path in ordered if time_ns[path] >= least_ns})


def _recorded_flame(trace: TraceData) -> Flame:
    steps, _ = steady_steps(trace)
    if not len(steps):
        return Flame(0.0, {})
    parent, inside = _within_steps(trace, steps)
    label, texts = own_texts(trace)
    names = [comparable_name(text) for text in texts]
    nesting = line_nesting(trace)
    durations = (nesting.until_ns - nesting.start_ns) / len(steps)
    step_ns = float((steps.end_ns - steps.start_ns).mean())
    paths: list[Path] = [()]
    time_ns: dict[Path, float] = {}
    node = np.zeros(len(parent) + 1, dtype=np.int64)  # the last, -1, is the step
    for level in levels(depths(parent)):
        rows = level[inside[level]]
        keys, group = np.unique(node[parent[rows]] * len(names) + label[rows], return_inverse=True)
        total = np.bincount(group.reshape(-1), durations[rows], len(keys))
        node[rows] = len(paths) + group.reshape(-1)
        for key, ns in zip(keys.tolist(), total.tolist(), strict=True):
            parent_path, name = divmod(key, len(names))
            paths.append((*paths[parent_path], names[name]))
            time_ns[paths[-1]] = time_ns.get(paths[-1], 0.0) + ns
    return Flame(step_ns, time_ns)


def _within_steps(trace: TraceData, steps: Steps) -> tuple[Values, Flags]:
    """Parent of every event in its step (-1: none), and whether the event is in a step."""
    nesting = line_nesting(trace)
    around, start, end = nesting.around, nesting.start_ns, nesting.until_ns
    step = np.searchsorted(steps.start_ns, start, side="right") - 1
    inside = (step >= 0) & (end <= steps.end_ns[step]) & ~nesting.is_async
    inside &= ~on_other_threads(trace, steps)
    inside[steps.event] &= ~(start == steps.start_ns[step])[steps.event]  # the mark of a step
    return np.where(inside & inside[around] & (around >= 0), around, -1), inside


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src {hash}; \
base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body class="diff">
<h1>{title}</h1>
{content}
</body>
</html>
"""

_STYLE = """
body.diff { height: auto; max-width: 1200px; margin: 0 auto; padding: 16px 24px 48px; }
.diff h1 { font-size: 20px; } .diff h2 { font-size: 15px; margin: 28px 0 8px; }
.diff p { margin: 2px 0; } .diff .dim { color: var(--dim); }
.diff table { border-collapse: collapse; width: 100%; background: var(--panel); }
.diff th { color: var(--dim); font-weight: 500; }
.diff th, .diff td { padding: 4px 8px; border-bottom: 1px solid var(--line); text-align: right; }
.diff th:first-child, .diff td:first-child { text-align: left; overflow-wrap: anywhere; }
.diff svg text { font-size: 11px; fill: var(--span-text); pointer-events: none; }
.diff rect { fill: var(--bar); stroke: var(--panel); }
.diff .more1 { fill: color-mix(in srgb, var(--bad) 25%, var(--bar)); }
.diff .more2 { fill: color-mix(in srgb, var(--bad) 50%, var(--bar)); }
.diff .more3 { fill: color-mix(in srgb, var(--bad) 80%, var(--bar)); }
.diff .less1 { fill: color-mix(in srgb, var(--good) 25%, var(--bar)); }
.diff .less2 { fill: color-mix(in srgb, var(--good) 50%, var(--bar)); }
.diff .less3 { fill: color-mix(in srgb, var(--good) 80%, var(--bar)); }
"""

_DARK = re.compile(r':root\[data-theme="?dark"?\]\s*\{([^}]*)\}')
_LEGEND = (
    "Boxes are calls within a step, below their callers. Red: a larger share of the step than "
    "on the other side; green: a smaller one. Differences may be noise: the tables show which "
    "are significant."
)
_ROW = 18
_SHADES = ((0.05, 3), (0.01, 2), (0.002, 1))
"""Least change of a call, as a share of a step, and its shade."""


def diff_html(diff: Diff, a: Side, b: Side, judgements: Sequence[Judgement] = ()) -> str:
    """The page as text."""
    style = bundled("report.css") + _STYLE
    style += "".join(
        f"@media (prefers-color-scheme: dark){{:root{{{v}}}}}" for v in _DARK.findall(style)
    )
    flames = flame_of(a.traces), flame_of(b.traces)
    content = [
        _gate(judgements) if judgements else "",
        *(f"<p>{_text(line)}</p>" for line in headline(diff)),
        *map(_table, tables(diff)),
        _flame("A", flames[0], flames[1]),
        _flame("B", flames[1], flames[0]),
        f'<p class="dim">{_LEGEND}</p>' if flames[0].time_ns else "",
        *(f'<p class="dim">{_text(line)}</p>' for line in closing(diff)),
    ]
    title = _text(f"{diff.a.names[0]} to {diff.b.names[0]}")
    return _PAGE.format(
        title=title, hash=policy_hash(style), style=style, content="\n".join(filter(None, content))
    )


def _text(text: str) -> str:
    return escape(shown(text))


def _gate(judgements: Sequence[Judgement]) -> str:
    rows = [(one.condition.text, one.outcome.value, one.why) for one in judgements]
    return _table(DiffTable("Gate", ("Condition", "Outcome", "Why"), rows))


def _table(table: DiffTable) -> str:
    head = "".join(f"<th>{_text(heading)}</th>" for heading in table.headings)
    rows = "".join(f"<tr>{''.join(f'<td>{_text(c)}</td>' for c in row)}</tr>" for row in table.rows)
    more = f'<p class="dim">{table.left_out} more</p>' if table.left_out else ""
    return f"<h2>{_text(table.title)}</h2><table><tr>{head}</tr>{rows}</table>{more}"


def _flame(side: str, flame: Flame, other: Flame) -> str:
    """A flame graph as SVG: calls as boxes below their callers; both sides have one scale."""
    scale = max(flame.step_ns, other.step_ns)
    if not flame.time_ns or not scale:
        return ""
    left_ends: dict[tuple[str, ...], float] = {(): 0.0}
    boxes = []
    for path, ns in flame.time_ns.items():
        left = left_ends.get(path[:-1])
        if left is None:  # its caller is too short to be shown
            continue
        left_ends[path], left_ends[path[:-1]] = left, left + ns
        boxes.append(_box(path, left / scale, ns / scale, _change(flame, other, path), ns))
    deepest = max(map(len, flame.time_ns))
    return (
        f"<h2>A step of {side}: {time_text(round(flame.step_ns))}</h2>"
        f'<svg width="100%" height="{deepest * _ROW}" role="img">{"".join(boxes)}</svg>'
    )


def _change(flame: Flame, other: Flame, path: tuple[str, ...]) -> float:
    """Difference to the other side, as a share of a step."""
    other_share = other.time_ns.get(path, 0.0) / max(other.step_ns, 1)
    return flame.time_ns[path] / max(flame.step_ns, 1) - other_share


def _box(path: tuple[str, ...], left: float, width: float, change: float, ns: float) -> str:
    shade = next((shade for least, shade in _SHADES if abs(change) >= least), 0)
    kind = f' class="{"more" if change > 0 else "less"}{shade}"' if shade else ""
    title = f"{path[-1]}: {time_text(round(ns))}, {change:+.1%} of a step against the other side"
    return (
        f'<svg x="{left:.4%}" y="{(len(path) - 1) * _ROW}" width="{width:.4%}" height="{_ROW}">'
        f'<title>{_text(title)}</title><rect{kind} width="100%" height="100%"/>'
        f'<text x="3" y="13">{_text(path[-1]) if width > 0.02 else ""}</text></svg>'
    )
