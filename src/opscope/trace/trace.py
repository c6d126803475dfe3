"""The trace in memory: tables, names, ledger, metadata. Immutable once built."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from opscope.trace.names import Names
from opscope.trace.schema import TABLES
from opscope.trace.table import Table


class Trace:
    """What one recording holds, whatever made it.

    A trace comes from opscope's recorder, from our files on disk, or from somebody else's Chrome
    JSON; every view and analysis takes any of them.
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
        self._tables: dict[str, Table] = {}
        for name, schema in TABLES.items():
            given = tables.get(name, {})
            self._tables[name] = given if isinstance(given, Table) else Table(schema, given)
        if metadata is not None:
            self._tables["metadata"] = Table(
                TABLES["metadata"],
                {"key": list(metadata), "value": [json.dumps(v) for v in metadata.values()]},
            )

    def table(self, name: str) -> Table:
        """The table called ``name`` (see ``trace.schema.TABLES``).

        Raises:
            KeyError: the schema has no such table.
        """
        return self._tables[name]

    @property
    def events(self) -> Table:
        """The spans; row number is event id."""
        return self._tables["events"]

    @property
    def metadata(self) -> dict[str, Any]:
        """Options, versions and what the user added, decoded from JSON."""
        table = self._tables["metadata"]
        return {str(k): json.loads(v) for k, v in zip(table["key"], table["value"], strict=True)}

    def with_metadata(self, more: Mapping[str, Any]) -> Trace:
        """The same tables with some metadata added or replaced."""
        return Trace(self._tables, self.names, {**self.metadata, **more})

    @property
    def ledger(self) -> dict[str, dict[str, float]]:
        """What each source was asked for, recorded and dropped: ``{source: {what: value}}``."""
        table = self._tables["ledger"]
        result: dict[str, dict[str, float]] = {}
        for source, what, value in zip(
            table["source"], table["what"], table["value"], strict=True
        ):
            result.setdefault(str(source), {})[str(what)] = float(value)
        return result

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
