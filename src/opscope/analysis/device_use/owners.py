"""Work of each stream, by module, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import EventKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.module_attribution import ModuleAttribution, attribute_to_modules
from opscope.timeline.signatures import rows_of
from opscope.timeline.stretches import union_of
from opscope.timeline.tree.event_tree import nearest_ancestor


@dataclass(frozen=True)
class StreamUse:
    """One stream of a device.

    Attributes:
        stream: its number.
        work: number of kernels, copies and sets on it.
        busy_ns: time in which it worked.
        launches: calls that started work on it; a graph counts once.
        delay_median_ns: median delay from a launch call to its first work; -1 without launches.
        delay_90_ns: 90th percentile of this delay.
        delay_max_ns: the longest delay.
        begun_early: launches whose work began before the call, by the clocks of host and device;
            their delay counts as 0.
        depth_mean: mean number of launches that wait to begin.
        depth_max: maximum number.
    """

    stream: int
    work: int
    busy_ns: int
    launches: int
    delay_median_ns: int
    delay_90_ns: int
    delay_max_ns: int
    begun_early: int
    depth_mean: float
    depth_max: int


def times_between(trace: TraceData, rows: Values, bounds: tuple[int, int]) -> tuple[Values, Values]:
    """Begin and end of work, clipped to the time between two moments."""
    start = trace.table("gpu")["start_ns"][rows]
    end = start + trace.table("gpu")["duration_ns"][rows]
    return start.clip(*bounds), end.clip(*bounds)


def streams_of(trace: TraceData, rows: Values, bounds: tuple[int, int]) -> tuple[StreamUse, ...]:
    """Streams of one device, busiest first; ``rows`` in ``gpu`` are in order of start."""
    streams = trace.table("gpu")["stream"][rows]
    found = [
        _stream(trace, rows[streams == stream], stream, bounds)
        for stream in np.unique(streams).tolist()
    ]
    return tuple(sorted(found, key=lambda stream: -stream.busy_ns))


def _stream(trace: TraceData, rows: Values, stream: int, bounds: tuple[int, int]) -> StreamUse:
    gpu, events = trace.table("gpu"), trace.events
    start = gpu["start_ns"][rows]
    busy = union_of(*times_between(trace, rows, bounds))
    launch = gpu["launch"][rows]
    known = np.flatnonzero(launch >= 0)
    known = known[events["kind"][launch[known]] == EventKind.RUNTIME_CALL]
    calls, first = np.unique(launch[known], return_index=True)
    launched, work_start = events["start_ns"][calls], start[known[first]]
    delay = np.maximum(work_start - launched, 0)
    waits = (launched + delay).clip(*bounds) - launched.clip(*bounds)
    median, p90, longest = (
        map(int, np.percentile(delay, (50, 90, 100))) if len(delay) else (-1, -1, -1)
    )
    return StreamUse(
        stream=stream,
        work=len(rows),
        busy_ns=busy.total_ns,
        launches=len(calls),
        delay_median_ns=median,
        delay_90_ns=p90,
        delay_max_ns=longest,
        begun_early=int(np.count_nonzero(work_start < launched)),
        depth_mean=float(waits.sum()) / max(bounds[1] - bounds[0], 1),
        depth_max=_max_waiting(launched, launched + delay),
    )


def _max_waiting(launched: Values, work_start: Values) -> int:
    """Maximum number of launches that wait at once."""
    if not len(launched):
        return 0
    at = np.sort(launched)
    waiting = np.arange(1, len(at) + 1) - np.searchsorted(np.sort(work_start), at, side="right")
    return int(waiting.max())


Path = tuple[str, ...]


@dataclass(frozen=True)
class ModuleDeviceTime:
    """Device time of one module and the modules in it.

    Attributes:
        module: its path and class.
        depth: number of modules around it.
        forward_ns: work launched in its forward.
        backward_ns: work launched in the backward pass of its forward.
        own_forward_ns: part of ``forward_ns`` outside the modules in it.
        own_backward_ns: part of ``backward_ns`` outside the modules in it.
        graph_ns: part of both that CUDA graphs launched.
    """

    module: str
    depth: int
    forward_ns: int
    backward_ns: int
    own_forward_ns: int
    own_backward_ns: int
    graph_ns: int


def owners_of(trace: TraceData, rows: Values) -> tuple[Flags, Flags]:
    """Whether the launch of each piece of work is known, and whether it has an owner.

    An owner is an operator, module, annotation or call around its launch, or around its node's
    capture. ``rows``: the work, rows in ``gpu``. Shapes (work,).
    """
    gpu, events = trace.table("gpu"), trace.events
    is_owner = events["kind"] != EventKind.RUNTIME_CALL
    is_owned = is_owner | (nearest_ancestor(events["parent"], is_owner) >= 0)
    is_owned = np.append(is_owned, False)  # for no event
    launch, capture = gpu["launch"][rows], gpu["capture"][rows]
    has_owner = is_owned[launch] | is_owned[capture] | (_node_field(trace, rows, "operator") >= 0)
    return launch >= 0, has_owner


def _node_field(trace: TraceData, rows: Values, field: str) -> Values:
    """Field of the captured node of each piece of work: a row in names, -1 for none."""
    nodes, wanted = trace.table("gpu_graph_nodes"), trace.table("gpu")["graph_node"][rows]
    node = rows_of(nodes["node"], wanted)
    return np.where((node >= 0) & (wanted != 0), np.append(nodes[field], -1)[node], -1)


def modules_of(
    trace: TraceData, rows: Values, bounds: tuple[int, int]
) -> tuple[ModuleDeviceTime, ...]:
    """Device time of every module, outer before inner; empty without module calls.

    Work in a graph counts for the module and pass in which its node was captured. For a node
    captured by an earlier recording only the modules are known: it counts as forward. Work
    (``rows`` in ``gpu``) counts only between ``bounds``.
    """
    modules = attribute_to_modules(trace)
    gpu = trace.table("gpu")
    path, backward = _path_of(modules, gpu["launch"][rows])
    captured, captured_backward = _path_of(modules, gpu["capture"][rows])
    in_graph = gpu["graph_node"][rows] != 0
    path = np.where(in_graph, captured, path)
    backward = np.where(in_graph, captured_backward, backward)
    paths, texts = [*modules.paths], [modules.text(row) for row in range(len(modules.paths))]
    path = _with_earlier_captures(trace, rows, path, (paths, texts))
    begin, end = times_between(trace, rows, bounds)
    time = end - begin
    sums = np.zeros((3, len(paths)), dtype=np.int64)
    for row, chosen in enumerate((~backward, backward, in_graph)):
        there = chosen & (path >= 0)
        np.add.at(sums[row], path[there], time[there])
    return _rolled_up(paths, texts, sums)


def _path_of(
    modules: ModuleAttribution, event: npt.NDArray[np.signedinteger]
) -> tuple[Values, Flags]:
    known = event >= 0
    path = np.full(len(event), -1, dtype=np.int64)
    backward = np.zeros(len(event), dtype=np.bool_)
    path[known], backward[known] = modules.path[event[known]], modules.is_backward[event[known]]
    return path, backward


def _with_earlier_captures(
    trace: TraceData, rows: Values, path: Values, paths_and_texts: tuple[list[Path], list[str]]
) -> Values:
    """Paths with modules of nodes that an earlier recording captured, by their names."""
    paths, texts = paths_and_texts
    named = _node_field(trace, rows, "module")
    missing = np.flatnonzero((path < 0) & (named >= 0))
    if not len(missing):
        return path
    number = {one: row for row, one in enumerate(paths)}
    result = path.copy()
    for name in np.unique(named[missing]).tolist():
        parts = tuple(trace.names[name].split("/"))
        for depth in range(1, len(parts) + 1):
            if number.setdefault(parts[:depth], len(paths)) == len(paths):
                paths.append(parts[:depth])
                texts.append(".".join(parts[:depth]))
        result[missing[named[missing] == name]] = number[parts]
    return result


def _rolled_up(paths: list[Path], texts: list[str], own_ns: Values) -> tuple[ModuleDeviceTime, ...]:
    """Device time of each module, including modules inside; sorted by path."""
    row_of = {path: row for row, path in enumerate(paths)}
    total = own_ns.copy()
    for path, row in row_of.items():
        for depth in range(1, len(path)):
            outer = row_of.get(path[:depth])
            if outer is not None:
                total[:, outer] += own_ns[:, row]
    order = sorted(range(len(paths)), key=lambda row: paths[row])
    return tuple(
        ModuleDeviceTime(
            module=texts[row],
            depth=len(paths[row]) - 1,
            forward_ns=int(total[0, row]),
            backward_ns=int(total[1, row]),
            own_forward_ns=int(own_ns[0, row]),
            own_backward_ns=int(own_ns[1, row]),
            graph_ns=int(total[2, row]),
        )
        for row in order
        if total[:, row].any()
    )
