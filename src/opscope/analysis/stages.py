"""Stages of a serving engine: prefill and decode, with the operators that took the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.analysis.engine_steps import PhaseSummary, find_engine_steps
from opscope.base.printable import printable
from opscope.base.quantity_text import share_text, time_text
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.tree.event_tree import event_tree, nearest_ancestor, self_times

_MOST_OPERATORS = 5


@dataclass(frozen=True)
class Stage:
    """One stage: its steps, and its operators with most time, as name and self time in ns."""

    summary: PhaseSummary
    operators: tuple[tuple[str, int], ...]

    def as_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        one = self.summary
        return {
            "steps": one.steps,
            "median_ns": one.median_ns,
            "p99_ns": one.p99_ns,
            "total_ns": one.total_ns,
            "tokens": one.tokens,
            "operators": [{"name": name, "self_ns": took} for name, took in self.operators],
        }

    def line(self) -> str:
        """One-line text."""
        one = self.summary
        tokens = f", {one.tokens_per_s:,.0f} tokens a second" if one.tokens else ""
        whole = max(one.total_ns, 1)
        most = ", ".join(f"{printable(n)} {share_text(t / whole)}" for n, t in self.operators[:3])
        return (
            f"{one.phase.name.lower()}: {one.steps:,} steps, median {time_text(one.median_ns)}, "
            f"p99 {time_text(one.p99_ns)}{tokens}; most time: {most or 'no operator'}"
        )


def find_stages(trace: TraceData) -> list[Stage]:
    """Stages from spans with names of engines' steps; empty without any."""
    steps = find_engine_steps(trace)
    tree = event_tree(trace)
    is_step = np.zeros(len(trace.events), dtype=np.bool_)
    is_step[steps.event] = True
    around, self_ns = nearest_ancestor(tree.parent, is_step), self_times(tree)
    is_operator = trace.events["kind"] == EventKind.OPERATOR
    stages = []
    for summary in steps.by_phase():
        mine = steps.event[steps.phase == summary.phase]
        inside = np.flatnonzero(is_operator & np.isin(around, mine))
        names, where = np.unique(trace.events["name"][inside], return_inverse=True)
        took = np.bincount(where, weights=self_ns[inside], minlength=len(names))
        most = np.argsort(-took, kind="stable")[:_MOST_OPERATORS]
        operators = tuple((trace.names[int(names[row])], int(took[row])) for row in most)
        stages.append(Stage(summary, operators))
    return stages
