"""What a step would take if part of the program took a different time."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from opscope.analysis.critical_path.graph import WaitGraph, wait_graph
from opscope.analysis.critical_path.replay import WhatIf, replay
from opscope.analysis.critical_path.selection import Selection
from opscope.base.reused_memory import reusing_memory
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.timeline.period import Which, period_of

Flags = npt.NDArray[np.bool_]

_MOST = 1_000_000
"""Times as long: with more, nanoseconds of a long recording are beyond what a number holds."""


@reusing_memory
def find_what_if(
    trace: TraceData, factors: Mapping[str, float], which: Which | str = Which.STEADY
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
    by_node = np.ones(len(graph), dtype=np.float64)
    for name, factor in factors.items():
        if not (isinstance(factor, (int, float)) and 0 <= factor <= _MOST):
            raise UsageError(
                f"{name!r} cannot take {factor!r} times as long. Give a number from 0 to "
                f"{_MOST:,}: 0.5 is half the time."
            )
        if not (isinstance(name, str) and name):
            raise UsageError(
                f"{name!r} is no part of a program. Give the name of an operator, the path of a "
                "module, or a line as in train.py:12."
            )
        by_node[_nodes(graph, selection, name)] *= factor
    return replay(graph, by_node)


def _nodes(graph: WaitGraph, selection: Selection, name: str) -> Flags:
    """Nodes in the spans that a name stands for, and the device's work that these launched.

    Raises:
        UsageError: it stands for nothing.
    """
    inside = np.append(selection.inside(name, graph.around), False)[graph.event]
    chosen = np.asarray(inside | np.isin(graph.gpu, selection.works(name)))
    if chosen.any():
        return chosen
    close = difflib.get_close_matches(name, selection.known, n=1)
    meant = f"Did you mean {close[0]!r}?" if close else "`opscope summary` shows the names."
    raise UsageError(
        f"Nothing in this recording is called {name!r}: give the name of an operator, the path of "
        f"a module, or a line as in train.py:12. {meant}"
    )
