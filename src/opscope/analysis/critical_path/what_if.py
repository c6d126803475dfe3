"""Predicted step time if part of the program took a different time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from opscope.analysis.critical_path.graph import WaitGraph, last_ended, wait_graph
from opscope.base.cached_property import cached_property
from opscope.base.quantity_text import share_text, time_text
from opscope.base.reused_memory import reusing_memory
from opscope.base.shown_result import ShownResult
from opscope.columns.table import nearest
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.timeline.arrays import Amounts, Flags, Values
from opscope.timeline.period import Which, period_of
from opscope.timeline.tree.event_tree import nearest_ancestor
from opscope.timeline.tree.frame_text import event_texts, module_names, own_texts
from opscope.timeline.tree.links import forward_backward_links


@dataclass(frozen=True, eq=False)
class WhatIf(ShownResult):
    """The recording replayed with other durations.

    Attributes:
        before_ns: duration of the period, replayed without a change.
        after_ns: duration with the change.
        changed_ns: sum of savings of the changed parts; parts behind other work save nothing.
        steps_before_ns: duration of each step. Shape (steps,).
        steps_after_ns: duration of each step with the change. Shape (steps,).
    """

    before_ns: int
    after_ns: int
    changed_ns: int
    steps_before_ns: Values
    steps_after_ns: Values

    @property
    def saved_ns(self) -> int:
        """Saved time; negative if it takes longer."""
        return self.before_ns - self.after_ns

    @property
    def saved_share(self) -> float:
        """Saved time as a share of the period."""
        return self.saved_ns / max(self.before_ns, 1)

    def __repr__(self) -> str:
        step = ""
        if len(self.steps_before_ns):
            before, after = (int(np.median(s)) for s in (self.steps_before_ns, self.steps_after_ns))
            step = f"; a step {time_text(before)} → {time_text(after)}"
        times = f"{time_text(self.before_ns)} → {time_text(self.after_ns)}"
        return f"<WhatIf: {times}, saves {share_text(self.saved_share)}{step}>"


def replay(graph: WaitGraph, factors: Amounts) -> WhatIf:
    """Replay the graph with the duration of each node times its factor."""
    recorded_ns = graph.duration_ns
    duration = np.rint(recorded_ns * factors).astype(np.int64)
    before, _ = graph.ends_with(recorded_ns)
    after, _ = graph.ends_with(duration)
    start = graph.start_of_time_ns
    edges = _nodes_at_steps(graph, before)
    steps = [np.diff(_at(one, edges, start), axis=0).reshape(-1) for one in (before, after)]
    return WhatIf(
        before_ns=_length_ns(graph, before),
        after_ns=_length_ns(graph, after),
        changed_ns=int((recorded_ns - duration).sum()),
        steps_before_ns=steps[0],
        steps_after_ns=steps[1],
    )


def _length_ns(graph: WaitGraph, end: Values) -> int:
    start = graph.start_of_time_ns
    return int(end[graph.is_program].max(initial=start)) - start


def _nodes_at_steps(graph: WaitGraph, end: Values) -> Values:
    """Nodes at whose ends each step begins and ends, on the program's thread. Shape (2, steps)."""
    if not len(graph):
        return np.zeros((2, 0), dtype=np.int64)
    own = np.flatnonzero((graph.gpu < 0) & graph.is_program)
    moments = np.stack([graph.steps.start_ns, graph.steps.end_ns])
    return last_ended(end, own, moments)


def _at(end: Values, nodes: Values, start_ns: int) -> Values:
    return np.where(nodes >= 0, end[nodes] if len(end) else 0, start_ns)


_LINE = re.compile(r"(?P<file>.+):(?P<line>\d+)")


class Selection:
    """Finds the parts of a trace that a name stands for."""

    def __init__(self, trace: TraceData) -> None:
        self._trace = trace

    @cached_property
    def known(self) -> list[str]:
        """Names of spans."""
        return own_texts(self._trace)[1]

    def inside(self, name: str, around: Values) -> Flags:
        """Events that a name stands for, and everything inside them. Shape (events,).

        For modules and lines also the backward pass of what ran in them.
        """
        chosen = self._called(name)
        within = self._of_line(name) | self._of_module(name)
        if within.any():
            within |= nearest_ancestor(around, within) >= 0
            links = forward_backward_links(self._trace)
            within[links.target[within[links.source]]] = True
        chosen |= within
        return np.asarray(chosen | (nearest_ancestor(around, chosen) >= 0))

    def works(self, name: str) -> Values:
        """Rows in ``gpu`` of device work with this name."""
        row = self._trace.names.find(name)
        return np.flatnonzero(self._trace.table("gpu")["name"] == row) if row >= 0 else _NO_ROWS

    def _called(self, name: str) -> Flags:
        result = np.zeros(len(self._trace.events), dtype=np.bool_)
        for label, texts in (event_texts(self._trace), own_texts(self._trace)):
            if name in texts:
                result |= label == texts.index(name)
        return result

    def _of_module(self, name: str) -> Flags:
        texts = {one.text for one in module_names(self._trace).values() if one.path == name}
        result = np.zeros(len(self._trace.events), dtype=np.bool_)
        for text in texts:
            result |= self._called(text)
        return result

    def _of_line(self, name: str) -> Flags:
        """Calls made directly by a line of the program. Shape (events,)."""
        result = np.zeros(len(self._trace.events), dtype=np.bool_)
        if (match := _LINE.fullmatch(name)) is None:
            return result
        frames, names = self._trace.table("frames"), self._trace.names
        ending = "/" + match["file"].lstrip("/")
        files = [("/" + names[file]).endswith(ending) for file in frames["file"]]
        wanted = np.array([*files, False], dtype=np.bool_)
        for table in ("python_calls", "operator_calls"):
            calls = self._trace.table(table)
            at = wanted[calls["caller"]] & (calls["caller_line"] == int(match["line"]))
            result[calls["event"][at]] = True
        return result


_NO_ROWS = np.zeros(0, dtype=np.int64)

_MOST = 1_000_000  # maximum factor: a larger one could overflow nanoseconds of a long recording


@reusing_memory
def find_what_if(
    trace: TraceData, factors: Mapping[str, float], which: Which | str = Which.STEADY
) -> WhatIf:
    """Replay a period with parts of it faster or slower; see :meth:`opscope.Trace.what_if`.

    Raises:
        UsageError: a factor is not a number from 0 to 1,000,000, or a name matches nothing.
    """
    if not isinstance(factors, Mapping):
        raise UsageError(
            f"{factors!r} has no factors. Give a factor for each part: "
            '{"aten::mm": 0.5} is half of its time.'
        )
    period = period_of(trace, which)
    graph, selection = wait_graph(period), Selection(period.trace)
    by_node = np.ones(len(graph), dtype=np.float64)
    for name, factor in factors.items():
        if not (isinstance(factor, (int, float)) and 0 <= factor <= _MOST):
            raise UsageError(
                f"The factor of {name!r} is {factor!r}. Use a number from 0 to {_MOST:,}: "
                "0.5 is half of its time."
            )
        if not (isinstance(name, str) and name):
            raise UsageError(
                f"{name!r} is not a part of a program. Name an operator, the path of a module, "
                "or a line as in train.py:12."
            )
        by_node[_nodes(graph, selection, name)] *= factor
    return replay(graph, by_node)


def _nodes(graph: WaitGraph, selection: Selection, name: str) -> Flags:
    """Nodes in the spans that a name stands for, and the device work that these launched."""
    inside = np.append(selection.inside(name, graph.around), False)[graph.event]
    chosen = np.asarray(inside | np.isin(graph.gpu, selection.works(name)))
    if chosen.any():
        return chosen
    near = nearest(name, selection.known)
    meant = f"Did you mean {near!r}?" if near else "`opscope summary` shows the names."
    raise UsageError(
        f"This recording has no part named {name!r}. Name an operator, the path of a module, "
        f"or a line as in train.py:12. {meant}"
    )
