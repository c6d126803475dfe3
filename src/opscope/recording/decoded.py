"""``Decoded``: the data that stages between native decoder and trace pass on.

decode → devices (``gpu_events``) → assemble.
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
    """What devices did, as it was delivered: not yet linked to events."""

    tables: Mapping[str, Table]  # by name, with the columns that only the next stage needs
    names: Names  # what ``name`` columns of theirs are rows of
    account: DeviceAccount  # what was lost, and which library collected


@dataclass(frozen=True)
class Decoded:
    """One recording, on its way to a trace."""

    tables: Mapping[str, Table]  # by name, as in the schema
    names: Names  # text of the tables
    account: WindowAccount  # what is known of the window beside its tables
    devices: Devices | None = None  # what devices did, where they were recorded
    gpu_refused: str = ""  # why devices could not be recorded, if they were asked for
    # of the devices, where the process that makes the trace cannot ask for them
    gpu_properties: Sequence[Mapping[str, Any]] = ()
    hears_memory: bool = True  # whether torch reported its allocations
    occupied_threads: int = 0  # threads whose Python calls another tool gets
    no_room: str = "memory budget"  # where what was dropped found no room, by the ledger's words
    # what the thread that opened the window had of a processor, by the ledger's words
    processor: Mapping[str, int] = field(default_factory=dict)
    # torch.distributed's, by the addresses that arguments show
    process_groups: Mapping[str, Any] = field(default_factory=dict)
    detail: Mapping[str, Any] | None = None  # see ``detail.py``; None: all is recorded alike

    @property
    def events(self) -> Table:
        """The spans."""
        return self.tables["events"]

    def with_tables(self, **tables: Table) -> Decoded:
        """The same with some tables exchanged or added."""
        return replace(self, tables={**self.tables, **tables})

    def with_names(self, names: Names) -> Decoded:
        """The same with these names."""
        return replace(self, names=names)

    def with_notes(self, notes: Sequence[tuple[str, str, float]]) -> Decoded:
        """The same with more rows for the ledger."""
        account = self.account.copy()
        account["notes"] = [*account["notes"], *notes]
        return replace(self, account=account)


def read_decoded(window: DecodedWindow) -> Decoded:
    """What ``_native.decode`` returned."""
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
    """With the columns that are there for the next stage only."""
    return delivered_table(TableSchema(schema.name, schema.row, schema.delivered), tables)


def delivered_table(schema: TableSchema, tables: Mapping[str, NativeTable]) -> Table:
    """A table that has every column the native decoder is to fill in, of that dtype.

    A column that it left out would be read as defaults everywhere, so that is not for ``Table`` to
    mend.
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
