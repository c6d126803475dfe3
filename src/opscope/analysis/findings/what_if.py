"""What a step would take if part of the program took a different time."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from opscope.analysis.critical_path.graph import WaitGraph, wait_graph
from opscope.analysis.critical_path.replay import WhatIf, replay
from opscope.analysis.critical_path.selection import Selection
from opscope.analysis.findings.find import find_findings
from opscope.analysis.findings.replayed import (
    Change,
    Factors,
    Flags,
    apply_fixes,
    factors_alone,
    taken_from,
)
from opscope.analysis.findings.unrecorded import clock_alone
from opscope.analysis.period import Period, Which, period_of
from opscope.errors import UsageError
from opscope.reused_memory import reusing_memory
from opscope.trace.trace import Trace

_MOST = 1_000_000
"""Times as long: with more, nanoseconds of a long recording are beyond what a number holds."""


@reusing_memory
def find_what_if(
    trace: Trace, factors: Mapping[str, float], which: Which | str = Which.STEADY
) -> WhatIf:
    """Replay a part of a recording with parts of it faster or slower.

    Args:
        trace: any.
        factors: what each part would take, as a multiple of what it took; parts are named as in
            :meth:`opscope.Trace.what_if`.
        which: the part of the recording.

    Raises:
        UsageError: these are no factors, a name matches nothing, a factor is below 0 or no number,
            or there is no such part.
    """
    if not isinstance(factors, Mapping):
        raise UsageError(
            f"{factors!r} says not how much faster. Give each part with what it would take as a "
            'multiple of what it took: {"aten::mm": 0.5} is half the time.'
        )
    period = period_of(trace, which)
    graph, selection = wait_graph(period), Selection(period.trace)
    alone = factors_alone(graph, clock_alone(period.trace))
    by_node, freed = np.ones(len(graph), dtype=np.float64), np.zeros(len(graph), dtype=np.bool_)
    for name, factor in factors.items():
        if not (isinstance(factor, (int, float)) and 0 <= factor <= _MOST):
            raise UsageError(
                f"{name!r} cannot take {factor!r} times as long. Give a number from 0 to "
                f"{_MOST:,}: 0.5 is half the time."
            )
        if not (isinstance(name, str) and name):
            raise UsageError(
                f"{name!r} is no part of a program. Give the name of an operator, the path of a "
                "module, a line as in train.py:12, or the id of a finding."
            )
        chosen = _nodes(graph, selection, name)
        if chosen.any():
            by_node[chosen] *= factor
            continue
        fix, without_waits = _finding(trace, period, graph, alone, name, selection)
        by_node *= 1 - (1 - fix) * (1 - factor)
        freed |= without_waits & (factor < 1)
    return replay(graph, by_node, freed, alone)


def _nodes(graph: WaitGraph, selection: Selection, name: str) -> Flags:
    """Nodes in the spans that a name stands for, and the device's work that these launched."""
    inside = np.append(selection.inside(name, graph.around), False)[graph.event]
    works = selection.works(name)
    return np.asarray(inside | np.isin(graph.gpu, works) if len(works) else inside)


def _finding(
    trace: Trace,
    period: Period,
    graph: WaitGraph,
    alone: Factors,
    name: str,
    selection: Selection,
) -> Change:
    """What nodes would take with the fix of the finding with this id.

    Raises:
        UsageError: there is none.
    """
    findings = find_findings(trace, which=period.which)
    for finding in findings:
        if finding.id == name:
            fixes = [replace(fix, events=period.in_part(fix.events)) for fix in finding.fixes]
            if fixes:
                return apply_fixes(graph, fixes)
            events = period.in_part(finding.events)
            return taken_from(graph, alone, events, finding.derived_alone_ns)
    known = [*selection.known, *(finding.id for finding in findings)]
    close = difflib.get_close_matches(name, known, n=1)
    meant = f"Did you mean {close[0]!r}?" if close else "`opscope summary` shows the names."
    raise UsageError(
        f"Nothing in this recording is called {name!r}: give the name of an operator, the path of "
        f"a module, a line as in train.py:12, or the id of a finding. {meant}"
    )
