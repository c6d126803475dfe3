"""Related rows: a launch and its kernel, forward and backward, block and free."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import AllocationAction, LinkKind
from opscope.columns.ledger import Doubt
from opscope.columns.nesting import enclosing
from opscope.columns.row_groups import group_rows, order_rows, rows_among
from opscope.columns.schema import EventKind
from opscope.storage.chrome.native_columns import CollectedEvents, rows_of
from opscope.storage.chrome.vocabulary import integer

Int64 = npt.NDArray[np.int64]
Columns = dict[str, Any]


def allocations(collector: CollectedEvents, base: int, nested: Any) -> Columns:
    """The ``allocations`` table in time order, each with its innermost span."""
    columns = collector.allocations
    columns["time_ns"] += base
    columns = rows_of(columns, np.argsort(columns["time_ns"], kind="stable"))
    columns["event"] = enclosing(nested, columns["thread"], columns["time_ns"])
    columns["allocation_id"] = _allocation_ids(columns)
    return columns


def _allocation_ids(columns: Columns) -> Int64:
    """Allocations in order; a free has the number of its block, -1 if unknown."""
    action, names = columns["action"], ("device_type", "device_index", "address")
    is_allocation = action == AllocationAction.ALLOCATE
    number = np.where(is_allocation, np.cumsum(is_allocation) - 1, -1)
    rows = np.flatnonzero(is_allocation | (action == AllocationAction.FREE))
    block = group_rows(*(columns[name][rows] for name in names)).group
    order = rows[order_rows(block)]
    block = np.sort(block, kind="stable")
    frees = ~is_allocation[order[1:]] & (block[1:] == block[:-1])
    number[order[1:][frees]] = number[order[:-1]][frees]
    return number


def device_activities(collector: CollectedEvents, base: int, events: Columns) -> Columns:
    """The ``gpu`` table in time order, with the event that launched each activity."""
    columns = collector.gpu
    columns["start_ns"] += base
    columns = rows_of(columns, np.argsort(columns["start_ns"], kind="stable"))
    external = columns.pop("external_id")
    is_runtime = events["kind"] == EventKind.RUNTIME_CALL
    earlier = np.searchsorted(events["start_ns"], columns["start_ns"], side="right")
    launch = _last_with(
        events["correlation_id"],
        is_runtime,
        columns["correlation_id"],
        np.asarray(earlier, dtype=np.int64),
    )
    by_operator = row_with(events["external_id"], ~is_runtime, external)
    columns["launch"] = np.where(launch >= 0, launch, by_operator)
    return columns


def overheads(collector: CollectedEvents, base: int) -> Columns:
    """The ``gpu_overheads`` table in time order."""
    columns = collector.overheads
    columns["start_ns"] += base
    threads = {integer(thread, -1): row for row, (_, thread) in enumerate(collector.threads)}
    thread_ids = columns.pop("system_thread_id").tolist()
    columns["thread"] = np.array([threads.get(thread, -1) for thread in thread_ids], dtype=np.int32)
    return rows_of(columns, np.argsort(columns["start_ns"], kind="stable"))


def unmatched_arrows(collector: CollectedEvents) -> int:
    """Number of launch arrows without a device activity in the file.

    The other arrows repeat ``gpu.launch``, which comes from the same ids.
    """
    is_matched = np.isin(collector.launch_arrows, collector.gpu["correlation_id"])
    return len(is_matched) - int(is_matched.sum())


def row_with(ids: Int64, usable: npt.NDArray[np.bool_], looked_up: Int64) -> Int64:
    """First usable row with each of ``looked_up``; -1 for none, and for ids of 0 and below."""
    rows = np.flatnonzero(usable & (ids > 0))
    rows = rows[np.argsort(ids[rows], kind="stable")]
    return np.append(rows, -1)[rows_among(ids[rows], looked_up)]


def _last_with(ids: Int64, usable: npt.NDArray[np.bool_], looked_up: Int64, before: Int64) -> Int64:
    """Like :func:`row_with`, but the last of several rows before row ``before`` if possible."""
    first_rows = row_with(ids, usable, looked_up)
    rows = np.flatnonzero(usable & (ids > 0))
    if (np.diff(np.sort(ids[rows])) != 0).all():
        return first_rows
    distinct_ids, number = np.unique(ids[rows], return_inverse=True)
    place = number * (len(ids) + 1) + rows
    order = np.argsort(place)
    nearest = np.searchsorted(distinct_ids, looked_up).clip(0, len(distinct_ids) - 1)
    at = np.searchsorted(place[order], nearest * (len(ids) + 1) + before, side="left") - 1
    last = rows[order[np.maximum(at, 0)]]
    return np.where((first_rows >= 0) & (at >= 0) & (ids[last] == looked_up), last, first_rows)


_LAUNCH = re.compile(r".*([Ll]aunch(?!Host)|[Mm]emcpy|[Mm]emset|[Ee]nqueue)")

NO_WORK = "launches have no device activity in the file, which is incomplete"
SHARED_IDS = "launches share a number: their activities are matched by time"


def launch_doubts(gpu: Columns, events: Columns, texts: Iterable[str]) -> list[Doubt]:
    """Doubts about launches and their work, beyond those at the borders of a recording."""
    texts = list(texts)
    is_launch = np.array([_LAUNCH.match(text) is not None for text in texts], dtype=np.bool_)
    is_call = (events["kind"] == EventKind.RUNTIME_CALL) & (events["correlation_id"] > 0)
    calls = np.flatnonzero(is_call)
    calls = calls[is_launch[events["name"][calls]] & ~_is_captured(events, texts)[calls]]
    ids = np.sort(events["correlation_id"][calls])
    without = len(ids) - int(np.isin(ids, gpu["correlation_id"]).sum())
    is_much = without >= _MIN_LAUNCHES and without * 2 >= len(ids)
    shared = int((np.diff(ids) == 0).sum())
    return [
        Doubt(NO_WORK, without if is_much else 0, len(ids)),
        Doubt(SHARED_IDS, shared, len(ids)),
    ]


def _is_captured(events: Columns, texts: list[str]) -> npt.NDArray[np.bool_]:
    """Which calls are inside a graph capture, where launches do no work."""
    change = np.array(
        [text.endswith("StreamBeginCapture") - text.endswith("StreamEndCapture") for text in texts],
        dtype=np.int64,
    )
    captured: npt.NDArray[np.bool_] = np.cumsum(change[events["name"]]) > 0
    return captured


_MIN_LAUNCHES = 4  # number of launches without work from which they are doubtful


def links(collector: CollectedEvents, base: int, nested: Any) -> Columns:
    """The ``links`` table: events that an arrow of the file connects."""
    flows = collector.flows
    event = enclosing(nested, flows["thread"], flows["time_ns"] + base)
    is_target = flows["is_target"] == 1
    target = row_with(flows["id"] + 1, is_target & (event >= 0), flows["id"] + 1)
    rows = np.flatnonzero(~is_target & (event >= 0) & (target >= 0))
    is_collective = flows["is_between_ranks"][rows] == 1
    return {
        "kind": np.where(is_collective, LinkKind.COLLECTIVE, LinkKind.FORWARD_BACKWARD),
        "source": event[rows].astype(np.int64),
        "target": event[target[rows]].astype(np.int64),
    }


def torch_thread_ids(events: Columns, threads: int) -> Int64:
    """torch's id of each thread, shape (threads,); 0 if unknown.

    Kineto writes the forward's thread id in backward nodes. A backward node and its forward
    operator have the same sequence number, so id k belongs to the thread that ran most forward
    operators of the backward nodes with id k.
    """
    numbered = events["sequence_number"] >= 0
    forward = np.flatnonzero(numbered & (events["forward_thread"] == 0))
    backward = np.flatnonzero(numbered & (events["forward_thread"] > 0))
    is_forward = np.zeros(len(numbered), dtype=np.bool_)
    is_forward[forward] = True
    match = row_with(events["sequence_number"] + 1, is_forward,
                      events["sequence_number"][backward] + 1)  # fmt: skip
    paired = match >= 0
    pairs = group_rows(events["thread"][match][paired], events["forward_thread"][backward][paired])
    result = np.zeros(threads, dtype=np.int64)
    order = np.argsort(pairs.count, kind="stable")  # the most frequent pair of a thread wins
    for thread, number in zip(*(column[order].tolist() for column in pairs.columns), strict=True):
        result[thread] = number
    return result
