"""A recording as data: tables, names, ledger, metadata. Immutable.

All rooms use this class. Users get ``api.trace.Trace``, which adds methods.
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
    """Data of one recording, from any recorder.

    Events are in order of start, and parents precede their children; validation refuses files
    whose events are not.
    """

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
            columns = tables.get(name, {})
            self._tables[name] = columns if isinstance(columns, Table) else Table(schema, columns)
        if metadata is not None:
            self._tables["metadata"] = Table(
                TABLES["metadata"],
                {"key": list(metadata), "value": [json.dumps(v) for v in metadata.values()]},
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_derived": {}}

    def table(self, name: str) -> Table:
        """Table called ``name`` (see ``columns.schema.TABLES``)."""
        if name not in self._tables:
            raise unknown_name("A trace has no table", name, [*self._tables])
        return self._tables[name]

    @property
    def events(self) -> Table:
        """Spans; the row number is the event id."""
        return self._tables["events"]

    @property
    def is_empty(self) -> bool:
        """Whether there are neither spans nor device activity."""
        return not len(self.events) and not len(self._tables["gpu"])

    @property
    def metadata(self) -> dict[str, Any]:
        """Options, versions and the user's additions, decoded from JSON."""
        table = self._tables["metadata"]
        return {str(k): json.loads(v) for k, v in zip(table["key"], table["value"], strict=True)}

    def with_metadata(self: _Data, changes: Mapping[str, Any]) -> _Data:
        """Copy with some metadata added or replaced."""
        return type(self)(self._tables, self.names, {**self.metadata, **changes})

    def with_only_metadata(self: _Data, metadata: Mapping[str, Any]) -> _Data:
        """Copy with this metadata only."""
        return type(self)(self._tables, self.names, metadata)

    def with_tables(self: _Data, changes: Mapping[str, Table]) -> _Data:
        """Copy with some tables replaced."""
        return type(self)({**self._tables, **changes}, self.names)

    @property
    def ledger(self) -> Ledger:
        """Requested, recorded and dropped items of each source: ``{source: {what: value}}``."""
        table = self._tables["ledger"]
        result = Ledger()
        for source, what, value in zip(table["source"], table["what"], table["value"], strict=True):
            result.setdefault(str(source), {})[str(what)] = float(value)
        return result

    @cached_property
    def has_times(self) -> bool:
        """Whether there are durations; False for an imported file in which all are 0."""
        spans = [self.table(name) for name in ("events", "gpu") if len(self.table(name))]
        took_time = any(bool(table["duration_ns"].any()) for table in spans)
        return took_time or not spans or "imported_from" not in self.metadata

    def __repr__(self) -> str:
        events = self.events
        start, duration = events["start_ns"], events["duration_ns"]
        lasted_s = float((start + duration).max() - start.min()) / 1e9 if len(events) else 0.0
        others = [name for name, table in self._tables.items() if len(table) and name != "events"]
        others_text = f"; also {', '.join(others)}" if others else ""
        duration_text = f"in {lasted_s:.3g} s" if self.has_times else "without times"
        return f"<Trace: {len(events):,} events {duration_text}{others_text}>"

    def event_name(self, event: int) -> str:
        """Name of one event."""
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
    """Decorator that caches a function's result with each trace.

    A result must not refer to the trace, which would then live until Python collects cycles. There
    is no lock, because a signal handler or a forked child would wait for the interrupted code. Two
    threads may both compute a result; the first one stays.
    """

    @wraps(compute)
    def cached(trace: TraceData) -> _Value:
        return derive(trace, compute, lambda: compute(trace))

    return cached


def derive(trace: TraceData, key: object, compute: Callable[[], _Value]) -> _Value:
    """Cache ``compute()`` for a trace under the key ``key``; see :func:`derived`."""
    cache = trace._derived
    if key not in cache:
        cache.setdefault(key, compute())
    value: _Value = cache[key]
    return value
