"""Time of every nn.Module: forward, backward, device work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Values
from opscope.timeline.listing import TorchListing, measure_device_time
from opscope.timeline.module_attribution import attribute_to_modules
from opscope.timeline.signatures import group_sums
from opscope.timeline.tree.event_tree import minus_children, nearest_ancestor
from opscope.timeline.tree.line_nesting import own_times


@dataclass(frozen=True)
class ModuleTimes:
    """One row per module, in order of first call. Shapes (rows,); times are nanoseconds."""

    paths: list[tuple[str, ...]]  # names, part by part; see ``ModuleAttribution``
    classes: list[str]
    calls: Values  # number of calls
    total_ns: Values  # time of its forward, including what it called
    self_ns: Values  # part of it outside the modules it called
    backward_ns: Values  # time of its backward, outside the modules it called
    device_ns: Values  # device work launched in its forward, including what it called

    def __len__(self) -> int:
        return len(self.paths)


def module_times(trace: TraceData, listing: TorchListing | None = None) -> ModuleTimes:
    """Sum the calls of every module; empty if no module calls were recorded.

    The backward pass counts for the module of its forward.
    """
    listing = listing or TorchListing(trace)
    attribution = attribute_to_modules(trace)
    is_module = trace.events["kind"] == EventKind.MODULE_CALL
    rows, count = np.flatnonzero(is_module), len(attribution.paths)
    path = attribution.path[rows]
    around = nearest_ancestor(listing.tree.parent, is_module)
    self_ns = minus_children(np.where(is_module, around, -1), listing.duration_ns)
    self_ns = np.maximum(self_ns, 0)  # in a file of others, callees may take longer than a call
    device = measure_device_time(listing).total_ns
    backward = np.flatnonzero(attribution.is_backward)
    spent = own_times(trace)[backward]
    return ModuleTimes(
        paths=attribution.paths,
        classes=attribution.classes,
        calls=np.bincount(path, minlength=count),
        total_ns=group_sums(listing.duration_ns[rows], path, count),
        self_ns=group_sums(self_ns[rows], path, count),
        backward_ns=group_sums(spent, attribution.path[backward], count),
        device_ns=group_sums(device[rows], path, count),
    )
