"""What every nn.Module costs: its forward, the backward of what it computed, its device work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.device_time import measure_device_time
from opscope.analysis.listing import Listing
from opscope.trace.schema import EventKind
from opscope.trace.trace import Trace
from opscope.tree.ancestry import nearest_ancestor
from opscope.tree.frame_text import MODULE_PREFIX
from opscope.tree.links import forward_backward_links
from opscope.tree.self_time import minus_children

Values = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ModuleTimes:
    """One row per module and place it was called from, in order of first call.

    Arrays have shape (rows,); times are nanoseconds.

    Attributes:
        paths: names from the outermost module to this one.
        depth: modules around it.
        calls: how often it was called.
        total_ns: its forward, with what it called.
        self_ns: that outside the modules it called.
        backward_ns: backward operators of what it computed itself, outside the modules it called.
        device_ns: device work launched in its forward, with what it called.
    """

    paths: list[tuple[str, ...]]
    depth: Values
    calls: Values
    total_ns: Values
    self_ns: Values
    backward_ns: Values
    device_ns: Values

    def __len__(self) -> int:
        return len(self.paths)


def module_times(trace: Trace, listing: Listing | None = None) -> ModuleTimes:
    """Sum the calls of every module; empty if no module calls were recorded.

    A backward operator counts for the module whose forward made it, by the arrow between them.
    """
    listing = listing or Listing(trace)
    is_module = trace.events["kind"] == EventKind.MODULE_CALL
    rows = np.flatnonzero(is_module)
    around = nearest_ancestor(listing.tree.parent, is_module)
    node_of_row, paths = _nodes(listing, rows, around)
    node = np.full(len(is_module), -1, dtype=np.int64)
    node[rows] = node_of_row
    own = minus_children(np.where(is_module, around, -1), listing.duration_ns)
    device = measure_device_time(listing).total_ns
    return ModuleTimes(
        paths=paths,
        depth=np.array([len(path) - 1 for path in paths], dtype=np.int64),
        calls=np.bincount(node_of_row, minlength=len(paths)),
        total_ns=_sum(node_of_row, listing.duration_ns[rows], len(paths)),
        self_ns=_sum(node_of_row, own[rows], len(paths)),
        backward_ns=_backward(trace, listing, node, np.where(is_module, -1, around), len(paths)),
        device_ns=_sum(node_of_row, device[rows], len(paths)),
    )


def _nodes(listing: Listing, rows: Values, around: Values) -> tuple[Values, list[tuple[str, ...]]]:
    """Number of the path of every module call; calls of one path share it."""
    numbers: dict[tuple[int, int], int] = {}
    paths: list[tuple[str, ...]] = []
    node: dict[int, int] = {-1: -1}
    result = np.zeros(len(rows), dtype=np.int64)
    labels, parents = listing.label[rows].tolist(), around[rows].tolist()
    for i, (row, label, parent) in enumerate(zip(rows.tolist(), labels, parents, strict=True)):
        key = (node[parent], label)  # parents start first, so theirs is known
        if key not in numbers:
            numbers[key] = len(paths)
            name = listing.texts[label].removeprefix(MODULE_PREFIX)
            paths.append((*(paths[key[0]] if key[0] >= 0 else ()), name))
        node[row] = result[i] = numbers[key]
    return result, paths


def _backward(
    trace: Trace, listing: Listing, node: Values, module_of: Values, nodes: int
) -> Values:
    links = forward_backward_links(trace)
    if not len(links):
        return np.zeros(nodes, dtype=np.int64)
    module = module_of[links.source]
    known = module >= 0
    return _sum(node[module[known]], listing.duration_ns[links.target[known]], nodes)


def _sum(group: Values, values: Values, groups: int) -> Values:
    return np.bincount(group, weights=values, minlength=groups).astype(np.int64)
