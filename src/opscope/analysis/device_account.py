"""Summary of device activity and of its consistency, in a line or two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.columns.device_rules import DeviceRules, check_device_rules
from opscope.columns.schema import UNHEARD
from opscope.columns.trace_data import TraceData
from opscope.timeline.doubts import sentence
from opscope.timeline.listing import WORK_KINDS
from opscope.timeline.signatures import rows_of


@dataclass(frozen=True)
class GraphOperator:
    """What one operator at one place of the program costs in replays."""

    operator: str  # its name; of an annotation or Python call where no operator ran
    module: str  # modules around it, outermost first, joined by ``/``; empty outside modules
    shapes: str  # of its inputs, as text; empty if they were not recorded
    stack: str  # Python calls around it, innermost first, one a line; empty if not recorded
    kernels: int  # activities in all replays
    device_ns: int  # their time


@dataclass(frozen=True)
class GraphAttribution:
    """Work inside CUDA graphs."""

    kernels: int  # how many activities
    device_ns: int  # their time
    attributed_ns: int  # of it, of work whose operator is known
    operators: tuple[GraphOperator, ...]  # most expensive first

    @property
    def share(self) -> float:
        """Part of the time in graphs that is attributed, 0 to 1; 1 if there is none."""
        return self.attributed_ns / self.device_ns if self.device_ns else 1.0

    def describe(self) -> str:
        """One line for people."""
        if not self.kernels:
            return "no work in CUDA graphs"
        text = f"{self.kernels:,} activities in CUDA graphs, {self.share:.1%} of their time"
        if self.share < 1.0:
            return f"{text} attributed to operators; the rest was captured without a recording"
        return f"{text} attributed to operators"


def attribute_graphs(trace: TraceData) -> GraphAttribution:
    """Attribute all work with a graph node to what was captured."""
    gpu, nodes = trace.table("gpu"), trace.table("gpu_graph_nodes")
    rows = np.flatnonzero(np.isin(gpu["kind"], WORK_KINDS) & (gpu["graph_node"] != 0))
    duration = gpu["duration_ns"][rows]
    node = rows_of(nodes["node"], gpu["graph_node"][rows])
    place = np.stack([nodes[name] for name in ("operator", "module", "shapes", "stack")], axis=1)
    known = node >= 0
    known[known] = (place[node[known]] >= 0).any(axis=1)
    operators = []
    distinct, group = np.unique(place[node[known]], axis=0, return_inverse=True)
    kernels = np.bincount(group.reshape(-1), minlength=len(distinct))
    times = np.bincount(group.reshape(-1), weights=duration[known], minlength=len(distinct))
    for row in np.argsort(-times, kind="stable"):
        texts = [trace.names[int(text)] for text in distinct[row]]
        operator, module, shapes, stack = texts
        count, device_ns = int(kernels[row]), int(times[row])
        operators.append(GraphOperator(operator, module, shapes, stack, count, device_ns))
    total, attributed = int(duration.sum()), int(duration[known].sum())
    return GraphAttribution(len(rows), total, attributed, tuple(operators))


def _rules_text(rules: DeviceRules) -> str:
    if not rules.work:
        return "no device work"
    broken = [sentence(doubt) for doubt in rules.doubts]
    verdict = f"INCONSISTENT: {'; '.join(broken)}" if broken else "consistent"
    share = rules.busy_ns / rules.wall_ns if rules.wall_ns else 0.0
    busy = f"busy {share:.1%} of the time from first to last"
    return f"{rules.work:,} device activities, {busy}, {verdict}"


def describe_devices(trace: TraceData) -> list[str]:
    """How much was done, whether the rules were kept, which share of CUDA graphs is attributed.

    Empty without device activity, unless it was asked for and could not be had.
    """
    about = trace.metadata.get("gpu", {})
    if about.get("unavailable"):
        return [f"no device activity: {about['unavailable']}"]
    if not len(trace.table("gpu")):
        return []
    lines = [_rules_text(check_device_rules(trace))]
    graphs = attribute_graphs(trace)
    if graphs.kernels:
        lines.append(graphs.describe())
    if unheard_ns := trace.ledger.get("gpu", {}).get(UNHEARD, 0):
        lines.append(
            f"the last device data is from {unheard_ns / 1e6:,.0f} ms before the end; later device "
            "work is missing"
        )
    return lines
