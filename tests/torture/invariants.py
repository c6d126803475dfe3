"""What holds for every trace, whatever was recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.columns.schema import TABLES, AllocationAction, EventKind

FAST = "fast"
"""How annotations end that are of an operator's kind, as compiled code makes them."""


def check_invariants(trace: Any) -> None:
    """Everything at once.

    Raises:
        AssertionError: something does not hold.
    """
    check_nesting(trace)
    check_references(trace)
    check_allocations(trace)
    check_ledger(trace)


def check_nesting(trace: Any) -> None:
    """Parents exist, are of the same thread and hold their children, which do not overlap."""
    events, end = trace.events, trace.end_ns
    parent, start, thread = events["parent"], events["start_ns"], events["thread"]
    rows = np.flatnonzero(parent >= 0)
    assert (parent >= -1).all() and (parent[rows] < rows).all()
    assert (thread[rows] == thread[parent[rows]]).all()
    assert (start[rows] >= start[parent[rows]]).all()
    assert (np.diff(start) >= 0).all() and (events["duration_ns"] >= 0).all()
    if len(start):
        assert start[0] >= trace.metadata["start_ns"] and end.max() <= trace.metadata["end_ns"]
    # Annotations may outlast what they began in, and what a call ends, ends before that call does;
    # anything else ends before its parent, and before the next one with the same parent.
    fast = [row for row, name in enumerate(trace.names) if name.endswith(f" {FAST}")]
    strict = (events["kind"] != EventKind.ANNOTATION) & ~events["is_async"]
    strict &= ~np.isin(events["name"], fast)
    inside = rows[strict[rows] & strict[parent[rows]]]
    outlasting = inside[end[inside] > end[parent[inside]]]
    assert not len(outlasting), described(trace, outlasting[:3])
    order = np.lexsort((np.arange(len(start)), parent, thread))
    order = order[strict[order]]
    before, after = order[:-1], order[1:]
    siblings = (parent[before] == parent[after]) & (thread[before] == thread[after])
    overlap = siblings & (end[before] > start[after])
    assert not overlap.any(), described(
        trace, np.stack([before[overlap], after[overlap]], 1).ravel()[:2]
    )


_NEEDED = {"events": ("thread", "name"), "tensors": ("event",), "python_calls": ("event",)}


def check_references(trace: Any) -> None:
    """Rows that other tables name are there; nothing is missing that may not be; no NaN."""
    for name, schema in TABLES.items():
        table = trace.table(name)
        for column in (column for column in schema.columns if column.refers):
            most = len(trace.names if column.refers == "names" else trace.table(column.refers))
            least = 0 if column.name in _NEEDED.get(name, ()) else -1
            values = table[column.name]
            assert ((values >= least) & (values < most)).all(), (name, column.name)
    values = trace.table("ledger")["value"]
    assert np.isfinite(values).all() and (values >= 0).all()
    calls = trace.table("python_calls")["event"]
    assert len(np.unique(calls)) == len(calls), "a call is described twice"


def check_allocations(trace: Any) -> None:
    """Blocks are freed once, with the size and at the address they were made with."""
    table = trace.table("allocations")
    events, threads = table["event"], table["thread"]
    inside = events >= 0
    assert (trace.events["thread"][events[inside]] == threads[inside]).all()
    time, start, end = table["time_ns"], trace.events["start_ns"], trace.end_ns
    assert (time[inside] >= start[events[inside]]).all(), "allocated before its event"
    assert (time[inside] <= end[events[inside]]).all(), "allocated after its event"
    made: dict[int, tuple[int, int]] = {}
    freed: set[int] = set()
    for row in np.flatnonzero(table["action"] == AllocationAction.ALLOCATE):
        number = int(table["allocation_id"][row])
        assert number not in made, f"allocation {number} is made twice\n" + _life(table, number)
        assert table["size_bytes"][row] > 0
        made[number] = int(table["size_bytes"][row]), int(table["address"][row])
    for row in np.flatnonzero(table["action"] == AllocationAction.FREE):
        number = int(table["allocation_id"][row])
        assert table["size_bytes"][row] < 0
        assert number < 0 or number not in freed, f"allocation {number} is freed twice"
        freed.add(number)
        if number in made:
            block = -int(table["size_bytes"][row]), int(table["address"][row])
            assert block == made[number], (block, made[number])


def _life(table: Any, number: int) -> str:
    columns = ("action", "thread", "event", "time_ns", "address", "size_bytes")
    rows = np.flatnonzero(table["allocation_id"] == number)
    return "\n".join(str({c: int(table[c][row]) for c in columns}) for row in rows)


def check_ledger(trace: Any) -> None:
    """What was asked for was recorded or dropped, and tables have what was recorded."""
    ledger = trace.ledger
    for source, table in (("events", "events"), ("allocations", "allocations")):
        figures = ledger.get(source)
        if figures is None:
            assert not len(trace.table(table)), source
            continue
        dropped = sum(value for what, value in figures.items() if what.startswith("dropped"))
        assert figures["requested"] == figures["recorded"] + dropped, figures
        assert figures["recorded"] == len(trace.table(table)), figures
        assert dropped == 0, figures
    assert ledger["events"]["unfinished"] == trace.events["unfinished"].sum()
    assert "stopped early by a fault" not in ledger.get("recorder", {}), trace.metadata.get("fault")


def described(trace: Any, rows: Any) -> str:
    """These events with all that they are in, for a failure's message."""
    lines = []
    for row in rows:
        while row >= 0:
            kind, unfinished = trace.events["kind"][row], trace.events["unfinished"][row]
            times = trace.events["start_ns"][row], trace.end_ns[row]
            name = trace.event_name(row)
            lines.append(f"{row} {name} {EventKind(kind).name} {unfinished} {times}")
            row = trace.events["parent"][row]
        lines.append("")
    return "\n".join(lines)
