"""What there is of device activity and whether it can be believed, in a line or two."""

from __future__ import annotations

from opscope.analysis.graph_attribution import attribute_graphs
from opscope.columns.device_rules import DeviceRules, check_device_rules
from opscope.columns.schema import UNHEARD
from opscope.columns.trace_data import TraceData
from opscope.timeline.doubts import sentence


def _rules_text(rules: DeviceRules) -> str:
    if not rules.work:
        return "no device work"
    broken = [sentence(doubt) for doubt in rules.doubts]
    verdict = f"BROKEN RULES: {'; '.join(broken)}" if broken else "all rules kept"
    share = rules.busy_ns / rules.wall_ns if rules.wall_ns else 0.0
    busy = f"busy {share:.1%} from the first to the last"
    return f"{rules.work:,} pieces of device work, {busy}, {verdict}"


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
            f"devices were last heard {unheard_ns / 1e6:,.0f} ms before the end: what they did "
            "after that is not known"
        )
    return lines
