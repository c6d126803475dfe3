"""Unknown codes from a newer opscope: skipped or marked, and counted.

A newer version may add kinds, roles, actions, columns and tables without raising the schema's
version. Guessing their meaning would give wrong answers, and refusing the trace none at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from opscope.columns.column import Column
from opscope.columns.table import Table

_MOST_NAMED, _LONGEST = 20, 200
"""Maximum number of unknown tables and columns to name, and length of a name."""

DROPPED, SHOWN, LEFT_OUT = "dropped", "shown as unknown", "left out"
"""Prefixes of counts in the ledger."""


def without_unknown_codes(tables: Mapping[str, Table]) -> tuple[dict[str, Table], Counter[str]]:
    """Tables without codes unknown to this version, and the number of affected rows by reason.

    Spans stay, as spans of an unknown kind, because others may be inside them. Rows that nothing
    refers to are left out.
    """
    found: Counter[str] = Counter()
    known = {}
    for name, table in tables.items():
        for column in table.schema.columns:
            if column.codes is not None and table.has(column.name):
                table = _without(table, column, len(column.codes), found)
        known[name] = table
    return known, found


def _without(table: Table, column: Column, codes: int, found: Counter[str]) -> Table:
    values = table[column.name]
    # A span that was read as unknown and saved again keeps that mark.
    marked = values == column.unknown if column.unknown is not None else False
    strange = np.flatnonzero((values >= codes) & ~np.asarray(marked))
    if not len(strange):
        return table
    fate = DROPPED if column.unknown is None else SHOWN
    numbers, counts = np.unique(values[strange], return_counts=True)
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        found[f"{fate}: {table.schema.name} of {column.name} {number}"] += count
    if column.unknown is None:
        return table.take(np.flatnonzero(values < codes))
    changed = values.copy()
    changed[strange] = column.unknown
    return table.replaced({column.name: changed})


def with_rows(table: Table, more: Mapping[tuple[str, str], float]) -> Table:
    """The ledger with more rows, by source and what they count."""
    columns = {column.name: table[column.name].tolist() for column in table.schema.columns}
    columns["source"] += [source for source, _ in more]
    columns["what"] += [what for _, what in more]
    columns["value"] += [float(value) for value in more.values()]
    return Table(table.schema, columns)


def unknown_columns(table: str, names: Iterable[str], known: Iterable[str]) -> Counter[str]:
    """Columns of a file that the schema does not have."""
    return _left_out(f"column {table}.{name}" for name in set(names) - set(known))


def unknown_tables(names: Iterable[str], known: Iterable[str]) -> Counter[str]:
    """Tables of a manifest that the schema does not have."""
    return _left_out(f"table {name}" for name in set(names) - set(known))


def _left_out(what: Iterable[str]) -> Counter[str]:
    return Counter(f"{LEFT_OUT}: {text[:_LONGEST]}" for text in sorted(what)[:_MOST_NAMED])
