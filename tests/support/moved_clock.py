"""Recordings as they would be if they came from machines whose clocks are apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.api.trace import Trace
from opscope.columns.schema import TABLES

TIMES = ("start_ns", "time_ns", "queued_ns", "submitted_ns")


@dataclass(frozen=True)
class ClockOf:
    """A machine's clock: ahead of the true time by ``offset_ns``, and gaining ``drift`` of it."""

    offset_ns: float
    drift: float
    origin_ns: int

    def ahead_ns(self, true_ns: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """How far ahead it is at moments of the true time; same shape."""
        since = np.asarray(true_ns, dtype=np.int64) - self.origin_ns
        ahead: npt.NDArray[np.float64] = np.round(self.offset_ns + self.drift * since)
        return ahead.astype(np.int64)


def as_of_machine(trace: Trace, host: str, clock: ClockOf) -> Trace:
    """The trace as ``host`` would have recorded it."""
    tables = {}
    for name, schema in TABLES.items():
        table = trace.table(name)
        if name != "metadata" and len(table):
            columns = [column.name for column in schema.columns if column.name in TIMES]
            moved = {c: table[c] + clock.ahead_ns(table[c]) for c in columns}
            tables[name] = table.replaced(moved)
    metadata = {**trace.metadata, "host_name": host, "boot_id": host}
    for key in ("start_ns", "end_ns"):
        if key in metadata:
            metadata[key] = metadata[key] + int(clock.ahead_ns(metadata[key]))
    metadata["process_groups"] = {
        address: {
            **group,
            "begun": [[t + int(clock.ahead_ns(t)), count] for t, count in group["begun"]],
        }
        for address, group in trace.metadata.get("process_groups", {}).items()
    }
    return Trace(tables, trace.names, metadata)
