"""``Decoded``: a recording between native decoding and the finished trace.

Stages: decode → devices (``gpu/events.py``) → assemble.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from opscope.columns.column import Delivered, TableSchema
from opscope.columns.device_schema import DEVICE_TABLES
from opscope.columns.names import Names
from opscope.columns.schema import RECORDED_TABLES
from opscope.columns.table import ListColumn, Table

if TYPE_CHECKING:
    from opscope._native import DecodedWindow, DeviceAccount, NativeTable, WindowAccount


@dataclass(frozen=True)
class Devices:
    """Device activity as delivered, not yet linked to events."""

    tables: Mapping[str, Table]  # by name, with columns that only the next stage needs
    names: Names  # texts of the ``name`` columns
    account: DeviceAccount  # losses, and the library that collected


@dataclass(frozen=True)
class Decoded:
    """One recording, decoded but not yet a trace."""

    tables: Mapping[str, Table]  # by name in the schema
    names: Names  # texts of the tables
    account: WindowAccount  # facts about the window besides its tables
    devices: Devices | None = None  # device activity, if recorded
    gpu_refused: str = ""  # why requested devices could not be recorded
    gpu_properties: Sequence[Mapping[str, Any]] = ()  # for a process without the devices
    reports_memory: bool = True  # whether torch reported its allocations
    occupied_threads: int = 0  # threads that report Python calls to another tool
    no_room: str = "memory budget"  # the limit that dropped events, as the ledger names it
    process_groups: Mapping[str, Any] = field(default_factory=dict)  # by address in arguments
    detail: Mapping[str, Any] | None = None  # see ``detail.py``; None: one level of detail

    @property
    def events(self) -> Table:
        """The spans."""
        return self.tables["events"]

    def with_tables(self, **tables: Table) -> Decoded:
        """A copy with some tables replaced or added."""
        return replace(self, tables={**self.tables, **tables})

    def with_names(self, names: Names) -> Decoded:
        """A copy with these names."""
        return replace(self, names=names)

    def with_notes(self, notes: Sequence[tuple[str, str, float]]) -> Decoded:
        """A copy with more rows for the ledger."""
        account = self.account.copy()
        account["notes"] = [*account["notes"], *notes]
        return replace(self, account=account)


def read_decoded(window: DecodedWindow) -> Decoded:
    """Convert the result of ``_native.decode``."""
    devices = None
    if (delivered := window["devices"]) is not None:
        devices = Devices(
            {schema.name: _device_table(schema, delivered["tables"]) for schema in DEVICE_TABLES},
            Names(delivered["name_offsets"], delivered["name_text"]),
            delivered["account"],
        )
    return Decoded(
        {schema.name: delivered_table(schema, window["tables"]) for schema in RECORDED_TABLES},
        Names(window["name_offsets"], window["name_text"]),
        window["account"],
        devices,
    )


def _device_table(schema: TableSchema, tables: Mapping[str, NativeTable]) -> Table:
    return delivered_table(TableSchema(schema.name, schema.row, schema.delivered), tables)


def delivered_table(schema: TableSchema, tables: Mapping[str, NativeTable]) -> Table:
    """Table of native columns; RuntimeError if a column is missing or has another dtype.

    ``Table`` alone would fill a missing column with defaults.
    """
    given = tables.get(schema.name, {})
    promised = {column.name: column for column in schema.delivered}
    wrong = [f"{name} is not in the schema" for name in sorted(given.keys() - promised.keys())]
    for name, column in promised.items():
        if name in given:
            found = _dtype_of(given[name])
            wrong += [f"{name} is {found}, not {column.dtype}"] if found != column.dtype else []
        elif column.delivered is not Delivered.SOMETIMES:
            wrong.append(f"{name} is missing")
    if wrong:
        raise RuntimeError(
            f"The native core and the schema differ in {schema.name}: {'; '.join(wrong)}. "
            "Install opscope again."
        )
    columns = {
        name: ListColumn(*data) if isinstance(data, tuple) else data for name, data in given.items()
    }
    return Table(schema, columns)


def _dtype_of(data: Any) -> str:
    return f"list[{data[1].dtype}]" if isinstance(data, tuple) else str(data.dtype)
