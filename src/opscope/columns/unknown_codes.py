"""Unknown codes from a newer opscope: skipped or marked, and counted.

A newer version may add kinds, roles, actions, columns and tables under the same schema version. To
guess their meaning would give wrong answers, and to refuse the trace none at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from opscope.columns.column import Column
from opscope.columns.table import Table

_MAX_NAMES, _MAX_LENGTH = 20, 200
"""Maximum number of unknown tables and columns in the ledger, and length of a name."""

DROPPED, SHOWN, LEFT_OUT = "dropped", "shown as unknown", "left out"
"""Prefixes of counts in the ledger."""


def without_unknown_codes(tables: Mapping[str, Table]) -> tuple[dict[str, Table], Counter[str]]:
    """Tables without unknown codes, and the number of affected rows by reason.

    Spans stay, with an unknown kind, because other spans may be inside them. Rows without
    references to them are omitted.
    """
    affected: Counter[str] = Counter()
    result = {}
    for name, table in tables.items():
        for column in table.schema.columns:
            if column.codes is not None and table.has(column.name):
                table = _without_codes(table, column, len(column.codes), affected)
        result[name] = table
    return result, affected


def _without_codes(table: Table, column: Column, codes: int, affected: Counter[str]) -> Table:
    values = table[column.name]
    # A span that was read as unknown and saved again has that mark.
    marked = values == column.unknown if column.unknown is not None else False
    unknown = np.flatnonzero((values >= codes) & ~np.asarray(marked))
    if not len(unknown):
        return table
    prefix = DROPPED if column.unknown is None else SHOWN
    numbers, counts = np.unique(values[unknown], return_counts=True)
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        affected[f"{prefix}: {table.schema.name} of {column.name} {number}"] += count
    if column.unknown is None:
        return table.take(np.flatnonzero(values < codes))
    changed = values.copy()
    changed[unknown] = column.unknown
    return table.replaced({column.name: changed})


def with_rows(table: Table, counts: Mapping[tuple[str, str], float]) -> Table:
    """The ledger with further rows, by source and description."""
    columns = {column.name: table[column.name].tolist() for column in table.schema.columns}
    columns["source"] += [source for source, _ in counts]
    columns["what"] += [what for _, what in counts]
    columns["value"] += [float(value) for value in counts.values()]
    return Table(table.schema, columns)


def unknown_columns(table: str, names: Iterable[str], schema_names: Iterable[str]) -> Counter[str]:
    """Columns of a file that the schema does not have."""
    return _counts(f"column {table}.{name}" for name in set(names) - set(schema_names))


def unknown_tables(names: Iterable[str], schema_names: Iterable[str]) -> Counter[str]:
    """Tables of a manifest that the schema does not have."""
    return _counts(f"table {name}" for name in set(names) - set(schema_names))


def _counts(items: Iterable[str]) -> Counter[str]:
    return Counter(f"{LEFT_OUT}: {text[:_MAX_LENGTH]}" for text in sorted(items)[:_MAX_NAMES])
