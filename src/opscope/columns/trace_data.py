"""A recording as data: tables, names, ledger, metadata. Immutable once built.

Every room takes these. Users hold ``api.trace.Trace``: the same with what can be asked of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from opscope.base.cached_property import cached_property
from opscope.columns.ledger import Ledger
from opscope.columns.names import Names
from opscope.columns.schema import TABLES
from opscope.columns.table import Table, unknown_name

_Data = TypeVar("_Data", bound="TraceData")


class TraceData:
    """What one recording holds, whatever made it."""

    def __init__(
        self,
        tables: Mapping[str, Mapping[str, Any] | Table],
        names: Names,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """``tables`` maps table names of the schema to columns; missing tables are empty.

        ``metadata`` values are anything JSON can hold.
        """
        self.names = names
        self._derived: dict[object, Any] = {}
        self._tables: dict[str, Table] = {}
        for name, schema in TABLES.items():
            given = tables.get(name, {})
            self._tables[name] = given if isinstance(given, Table) else Table(schema, given)
        if metadata is not None:
            self._tables["metadata"] = Table(
                TABLES["metadata"],
                {"key": list(metadata), "value": [json.dumps(v) for v in metadata.values()]},
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_derived": {}}

    def table(self, name: str) -> Table:
        """The table called ``name`` (see ``columns.schema.TABLES``)."""
        found = self._tables.get(name)
        if found is None:
            raise unknown_name("A trace has no table", name, [*self._tables])
        return found

    @property
    def events(self) -> Table:
        """The spans; row number is event id."""
        return self._tables["events"]

    @property
    def is_empty(self) -> bool:
        """Whether neither a thread nor a device did anything in it."""
        return not len(self.events) and not len(self._tables["gpu"])

    @property
    def metadata(self) -> dict[str, Any]:
        """Options, versions and what the user added, decoded from JSON."""
        table = self._tables["metadata"]
        return {str(k): json.loads(v) for k, v in zip(table["key"], table["value"], strict=True)}

    def with_metadata(self: _Data, more: Mapping[str, Any]) -> _Data:
        """The same tables with some metadata added or replaced."""
        return type(self)(self._tables, self.names, {**self.metadata, **more})

    def with_only_metadata(self: _Data, metadata: Mapping[str, Any]) -> _Data:
        """The same tables with this metadata and no other."""
        return type(self)(self._tables, self.names, metadata)

    def with_tables(self: _Data, more: Mapping[str, Table]) -> _Data:
        """The same trace with some tables replaced."""
        return type(self)({**self._tables, **more}, self.names)

    @property
    def ledger(self) -> Ledger:
        """What each source was asked for, recorded and dropped: ``{source: {what: value}}``."""
        table = self._tables["ledger"]
        result = Ledger()
        for source, what, value in zip(table["source"], table["what"], table["value"], strict=True):
            result.setdefault(str(source), {})[str(what)] = float(value)
        return result

    @cached_property
    def has_times(self) -> bool:
        """Whether it says how long anything took: a file in which everything took 0 does not."""
        spans = [self.table(name) for name in ("events", "gpu") if len(self.table(name))]
        took_time = any(bool(table["duration_ns"].any()) for table in spans)
        return took_time or not spans or "imported_from" not in self.metadata

    def __repr__(self) -> str:
        events = self.events
        start, duration = events["start_ns"], events["duration_ns"]
        lasted_s = float((start + duration).max() - start.min()) / 1e9 if len(events) else 0.0
        others = [name for name, table in self._tables.items() if len(table) and name != "events"]
        also = f"; also {', '.join(others)}" if others else ""
        lasted = f"in {lasted_s:.3g} s" if self.has_times else "without times"
        return f"<Trace: {len(events):,} events {lasted}{also}>"

    def event_name(self, event: int) -> str:
        """The name of one event."""
        return self.names[self.events["name"][event]]

    @property
    def end_ns(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """End of every event, shape (events,), Unix nanoseconds."""
        end: np.ndarray[Any, np.dtype[np.int64]] = (
            self.events["start_ns"] + self.events["duration_ns"]
        )
        return end


_Value = TypeVar("_Value")


def derived(compute: Callable[[TraceData], _Value]) -> Callable[[TraceData], _Value]:
    """Decorates a function of a trace: the same object for the same trace, gone with that.

    What is kept must not refer to the trace, which would then stay until Python collects cycles.
    Without a lock: a signal handler or a forked child would wait for what it interrupted. Two
    threads may both compute it; the first result is kept.
    """

    @wraps(compute)
    def kept(trace: TraceData) -> _Value:
        return derive(trace, compute, lambda: compute(trace))

    return kept


def derive(trace: TraceData, of: object, compute: Callable[[], _Value]) -> _Value:
    """The same of what takes more than the trace, which always is the same for it."""
    kept = trace._derived
    if of not in kept:
        kept.setdefault(of, compute())
    found: _Value = kept[of]
    return found
