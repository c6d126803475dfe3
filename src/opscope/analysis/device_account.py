"""What there is of device activity and whether it can be believed, in a line or two."""

from __future__ import annotations

from opscope.analysis.graph_attribution import attribute_graphs
from opscope.trace.device_rules import check_device_rules
from opscope.trace.trace import Trace


def describe_devices(trace: Trace) -> list[str]:
    """How much was done, whether the rules were kept, which share of CUDA graphs is attributed.

    Empty without device activity, unless it was asked for and could not be had.
    """
    if not len(trace.table("gpu")):
        unavailable = trace.metadata.get("gpu", {}).get("unavailable")
        return [f"no device activity: {unavailable}"] if unavailable else []
    lines = [check_device_rules(trace).describe()]
    graphs = attribute_graphs(trace)
    return [*lines, graphs.describe()] if graphs.kernels else lines
