"""What there is of device activity and whether it can be believed, in a line or two."""

from __future__ import annotations

from opscope.analysis.graph_attribution import attribute_graphs
from opscope.trace.device_rules import check_device_rules
from opscope.trace.schema import UNHEARD
from opscope.trace.trace import Trace


def describe_devices(trace: Trace) -> list[str]:
    """How much was done, whether the rules were kept, which share of CUDA graphs is attributed.

    Empty without device activity, unless it was asked for and could not be had.
    """
    about = trace.metadata.get("gpu", {})
    if about.get("unavailable"):
        return [f"no device activity: {about['unavailable']}"]
    if not len(trace.table("gpu")):
        return []
    lines = [check_device_rules(trace).describe()]
    graphs = attribute_graphs(trace)
    if graphs.kernels:
        lines.append(graphs.describe())
    if unheard_ns := trace.ledger.get("gpu", {}).get(UNHEARD, 0):
        lines.append(
            f"devices were last heard {unheard_ns / 1e6:,.0f} ms before the end: what they did "
            "after that is not known"
        )
    return lines
