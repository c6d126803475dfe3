"""Whether the trace of a program that died has what it had done."""

import numpy as np

from deaths.counts import ALLOCATIONS, OPERATORS, THREADS, UNITS_BEGUN, UNITS_ENDED
from opscope.columns.schema import AllocationAction


def differences(trace, counts) -> list[str]:
    """What is not as it should be; empty if all is."""
    found = []
    if trace.metadata["ended"]["whole"]:
        found.append("the recording says that it was stopped")
    names = np.array([*trace.names, ""], dtype=object)
    of_events = names[trace.events["name"]]
    unfinished, parents = trace.events["unfinished"].astype(bool), trace.events["parent"]
    allocations = trace.table("allocations")
    is_made = allocations["action"] == AllocationAction.ALLOCATE
    makers = of_events[allocations["event"][is_made & (allocations["event"] >= 0)]]
    for thread in range(THREADS):
        row, unit = counts.rows[thread], f"unit of {thread}"
        is_unit = of_events == unit
        found += _off(f"{unit}: begun", int(is_unit.sum()), int(row[UNITS_BEGUN]))
        ended = int((is_unit & ~unfinished).sum())
        found += _off(f"{unit}: ended", ended, int(row[UNITS_ENDED]))
        inside = _around(of_events == "aten::neg", parents, is_unit)
        found += _off(f"{unit}: operators in it", inside, int(row[OPERATORS]))
    if trace.metadata["options"]["memory"]:
        made = int((makers == "aten::neg").sum())
        expected = int(counts.rows[:, ALLOCATIONS].sum())
        if not expected <= made <= expected + THREADS:
            found.append(f"allocations: {made} recorded, {expected} counted")
    return found + _ledger(trace)


def _off(what, recorded, counted):
    if counted <= recorded <= counted + 1:
        return []
    return [f"{what}: {recorded} recorded, {counted} counted"]


def _around(wanted, parents, is_unit):
    """How many of the events wanted lie in a unit."""
    rows = np.flatnonzero(wanted)
    above, inside = parents[rows], np.zeros(len(rows), bool)
    while (above >= 0).any():
        inside |= (above >= 0) & is_unit[above]
        above = np.where(above >= 0, parents[above], -1)
    return int(inside.sum())


def _ledger(trace):
    found = []
    for source in ("events", "allocations"):
        row = trace.ledger.get(source)
        if row is None:
            continue
        lost = sum(value for what, value in row.items() if what.startswith("dropped"))
        if row["requested"] != row["recorded"] + lost or lost:
            found.append(f"the ledger of {source} is {row}")
    recording = trace.ledger.get("recording", {})
    missing = recording.get("dropped: blocks that were not written to disk", 0)
    return [*found, *([f"{missing} blocks are missing"] if missing else [])]
