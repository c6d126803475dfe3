"""Summary of device activity and its consistency, in a few lines."""

from __future__ import annotations

import numpy as np

from opscope.columns.device_rules import DeviceRules, check_device_rules
from opscope.columns.schema import END_WITHOUT_DEVICE_DATA
from opscope.columns.trace_data import TraceData
from opscope.timeline.doubts import sentence
from opscope.timeline.listing import WORK_KINDS
from opscope.timeline.signatures import rows_of


def graph_share(trace: TraceData) -> tuple[int, float]:
    """Number of activities in CUDA graphs, and the share of their time with known origin."""
    gpu, nodes = trace.table("gpu"), trace.table("gpu_graph_nodes")
    rows = np.flatnonzero(np.isin(gpu["kind"], WORK_KINDS) & (gpu["graph_node"] != 0))
    duration, node = gpu["duration_ns"][rows], rows_of(nodes["node"], gpu["graph_node"][rows])
    is_known = np.any([nodes[name] >= 0 for name in ("operator", "module", "stack")], axis=0)
    known_ns = duration[np.append(is_known, False)[node]].sum()
    return len(rows), float(known_ns / max(duration.sum(), 1)) if len(rows) else 1.0


def _rules_text(rules: DeviceRules) -> str:
    if not rules.work:
        return "no device work"
    broken = [sentence(doubt) for doubt in rules.doubts]
    verdict = f"INCONSISTENT: {'; '.join(broken)}" if broken else "consistent"
    share = rules.busy_ns / rules.wall_ns if rules.wall_ns else 0.0
    busy = f"busy {share:.1%} of the time from first to last"
    return f"{rules.work:,} device activities, {busy}, {verdict}"


def describe_devices(trace: TraceData) -> list[str]:
    """Lines on device work, broken rules, and the attributed share of CUDA graphs.

    Empty without device activity, unless it was requested but unavailable.
    """
    about = trace.metadata.get("gpu", {})
    if about.get("unavailable"):
        return [f"no device activity: {about['unavailable']}"]
    if not len(trace.table("gpu")):
        return []
    lines = [_rules_text(check_device_rules(trace))]
    count, share = graph_share(trace)
    if count:
        rest = "; the rest was captured without a recording" if share < 1.0 else ""
        lines.append(
            f"{count:,} activities in CUDA graphs, {share:.1%} of their time attributed to "
            f"operators{rest}"
        )
    if missing_ns := trace.ledger.get("gpu", {}).get(END_WITHOUT_DEVICE_DATA, 0):
        lines.append(
            f"the last device data is from {missing_ns / 1e6:,.0f} ms before the end; later device "
            "work is missing"
        )
    return lines
