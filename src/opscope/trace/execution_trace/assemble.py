"""Nodes collected from an execution trace to a :class:`Trace`: order, parents, times."""

from __future__ import annotations

import calendar
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.trace.chrome.numbers import TIME_LIMIT, integer
from opscope.trace.execution_trace.collect import NodeCollector
from opscope.trace.execution_trace.read_json import read_nodes
from opscope.trace.execution_trace.values import as_array
from opscope.trace.metadata_kinds import sound_metadata
from opscope.trace.names import Names
from opscope.trace.shapes import sound_shapes
from opscope.trace.trace import Trace
from opscope.trace.validate import checked_trace

Int64 = npt.NDArray[np.int64]
Columns = dict[str, Any]

STEP_NS = 1000
"""How far apart nodes without times are put, so that they nest."""


def load_execution_trace(path: str | Path) -> Trace:
    """Read an execution trace (plain or gzip) written by torch or by opscope.

    torch's files say in which order operators began, and not when: such nodes are put one
    microsecond apart, and ``metadata["has_times"]`` is false. What the file says wrongly (parents
    that are not there or come later) and what was left out is counted in the ledger.

    Raises:
        TraceFormatError: the file is missing, damaged, truncated or not an execution trace.
    """
    path = Path(path)
    collector = NodeCollector()
    header, left_out = sound_metadata(read_nodes(path, collector))
    collector.skipped.update(f"metadata {key[:40]!r} of another kind" for key in left_out)
    return checked_trace(_assemble(collector, header, path.name), str(path))


def _assemble(collector: NodeCollector, header: Mapping[str, Any], file_name: str) -> Trace:
    events = {name: as_array(column) for name, column in collector.nodes.items()}
    has_times = 0 < collector.timed == len(events["id"])
    order = _start_order(events["id"], events["start_ns"] if has_times else None)
    if order is not None:
        events = {name: column[order] for name, column in events.items()}
    damage = _set_parents(events, collector.roots)
    if has_times:
        base = integer(header.get("baseTimeNanoseconds"), 0, 0, TIME_LIMIT)
        events["start_ns"] = events["start_ns"] + base
    else:
        _invent_times(events, _begin_ns(header))
    del events["id"], events["forward_parent"]
    tables = {
        "events": events,
        **_values(collector, order),
        "threads": {
            "system_thread_id": list(collector.threads),
            "torch_thread_id": list(collector.threads),
        },
        "ledger": _ledger(collector, len(events["parent"]), damage),
    }
    return Trace(tables, Names.from_strings(collector.texts), {
        **header,
        "imported_from": file_name,
        "has_times": has_times,
        "process_id": integer(header.get("pid"), 0, 0, (1 << 32) - 1),
        "operator_schemas": collector.schemas,
    })  # fmt: skip


def _start_order(number: Int64, start: Int64 | None) -> Int64 | None:
    """Nodes in the order in which they began; None if they are in it. Ids rise in that order."""
    first = number if start is None else start
    steps = np.diff(first)
    if np.all((steps > 0) | ((steps == 0) & (np.diff(number) > 0))):
        return None
    return np.lexsort((number,) if start is None else (number, start))


def _set_parents(events: Columns, roots: set[int]) -> dict[str, int]:
    """Turn ids of parents into rows; returns how many there was something wrong with."""
    number, parent = events["id"], events["parent"]
    row = _rows_of(number, parent)
    is_later = row >= np.arange(len(row))
    is_root = np.isin(parent, list(roots))
    events["parent"] = np.where(is_later, -1, row).astype(np.int32)
    sorted_ids = np.sort(number)
    return {
        "parents that are not in the file": int(np.count_nonzero((row < 0) & ~is_root)),
        "parents that begin after their children": int(np.count_nonzero(is_later)),
        "ids given twice": int(np.count_nonzero(sorted_ids[1:] == sorted_ids[:-1])),
    }


def _rows_of(number: Int64, wanted: Int64) -> Int64:
    """Rows of the nodes with the ids ``wanted``, -1 where there is none."""
    by_id = np.argsort(number, kind="stable")
    sorted_ids = number[by_id]
    place = np.minimum(np.searchsorted(sorted_ids, wanted), max(len(sorted_ids) - 1, 0))
    return np.where(sorted_ids[place] == wanted, by_id[place], -1)


def _invent_times(events: Columns, begin_ns: int) -> None:
    """One step per node in order.

    A node lasts until the last of those inside it, or that found it open on their forward thread.
    """
    forward_parent = _rows_of(events["id"], events["forward_parent"])
    count = len(forward_parent)
    last = list(range(count))
    links = zip(events["parent"].tolist(), forward_parent.tolist(), strict=True)
    for row, above in zip(range(count - 1, -1, -1), reversed(list(links)), strict=True):
        for parent in above:
            if 0 <= parent < row and last[row] > last[parent]:
                last[parent] = last[row]
    steps = np.arange(count, dtype=np.int64)
    events["start_ns"] = begin_ns + steps * STEP_NS
    events["duration_ns"] = (np.array(last, dtype=np.int64) - steps + 1) * STEP_NS


def _begin_ns(header: Mapping[str, Any]) -> int:
    """The file's own time; it has no time zone, so UTC is as good as any."""
    try:
        begin = time.strptime(str(header.get("time")), "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return 0
    return max(calendar.timegm(begin), 0) * 10**9


def _values(collector: NodeCollector, order: Int64 | None) -> dict[str, Columns]:
    """``tensors`` and ``scalars``, renumbered and sorted like the events."""
    values = collector.values
    tensors, scalars = (
        {name: as_array(column) for name, column in columns.items()}
        for columns in (values.tensors, values.scalars)
    )
    sizes, strides = sound_shapes(*(values.list_column(name) for name in ("sizes", "strides")))
    lists = {"sizes": sizes, "strides": strides}
    if order is not None:
        new_row = np.empty(len(order), dtype=np.int32)
        new_row[order] = np.arange(len(order), dtype=np.int32)
        tensors, by_event = _renumbered(tensors, new_row)
        lists = {name: column.take(by_event) for name, column in lists.items()}
        scalars, _ = _renumbered(scalars, new_row)
    return {
        "tensors": {**tensors, **lists, "storage_impl": tensors["storage"]},
        "scalars": scalars,
    }


def _renumbered(columns: Columns, new_row: npt.NDArray[np.int32]) -> tuple[Columns, Int64]:
    event = new_row[columns["event"]]
    order = np.argsort(event, kind="stable")
    return {n: (event if n == "event" else c)[order] for n, c in columns.items()}, order


def _ledger(collector: NodeCollector, events: int, damage: Mapping[str, int]) -> Columns:
    rows = [("events", "recorded", events), ("import", "nodes in the file", collector.seen)]
    rows += [("import", what, count) for what, count in damage.items() if count]
    rows += [("import", f"dropped: {why}", n) for why, n in sorted(collector.skipped.items())]
    source, what, value = zip(*rows, strict=True)
    return {"source": list(source), "what": list(what), "value": list(value)}
