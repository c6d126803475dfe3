"""Display of any result as tables in a notebook."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from opscope.base.html_table import html_table
from opscope.base.quantity_text import bytes_text, share_text, time_text

MOST_ROWS = 12

_Row = Mapping[str, Any]


class ShownResult:
    """A result that a notebook shows by its ``as_dict()``, else by its fields.

    Numbers, texts and notes are one table; each list of rows is a further table.
    """

    def _repr_html_(self) -> str:
        values, facts, tables = _as_row(self), list[list[str]](), list[str]()
        for name, value in values.items():
            rows = _rows(value)
            if rows:
                columns = [key for key, cell in rows[0].items() if _is_plain(cell)]
                cells = [[_text(key, row.get(key)) for key in columns] for row in rows[:MOST_ROWS]]
                hidden = len(rows) - len(cells)
                note = f"{hidden:,} more rows" if hidden else ""
                tables.append(html_table(_words(name), list(map(_words, columns)), cells, note))
            elif isinstance(value, Mapping) or is_dataclass(value):
                inner = _as_row(value).items()
                facts += [[f"{_words(name)}: {_words(str(key))}", _text(str(key), item)]
                          for key, item in inner if _is_plain(item)]  # fmt: skip
            elif isinstance(value, list | tuple):
                facts += [[_words(name), str(item)] for item in value if _is_plain(item)]
            elif _is_plain(value) and value not in (None, ""):
                facts.append([_words(name), _text(name, value)])
        title = f"opscope: {_words(re.sub('(?<!^)(?=[A-Z])', '_', type(self).__name__))}"
        return html_table(title, ("", ""), facts[: 2 * MOST_ROWS], texts=(0, 1)) + "".join(tables)


def _as_row(value: Any) -> _Row:
    if isinstance(value, Mapping):
        return value
    if hasattr(value, "as_dict"):
        values: _Row = value.as_dict()
        return values
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return {}


def _rows(value: Any) -> list[_Row]:
    """Results in a list, as mappings; empty for anything else."""
    is_list = isinstance(value, list | tuple) and not hasattr(value, "_fields")
    return list(filter(None, map(_as_row, value))) if is_list else []


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _words(name: str) -> str:
    return name.removesuffix("_ns").removesuffix("_bytes").replace("_", " ").strip().lower()


def _text(name: str, value: Any) -> str:
    value = value.value if isinstance(value, Enum) else value
    if value is None or isinstance(value, str | bool):
        return "" if value is None else str(value)
    if name.endswith(("share", "coverage")):
        return share_text(value)
    size = value if abs(value) < float("inf") else 0
    for ending, text in (("_ns", time_text), ("_bytes", bytes_text)):
        if name.endswith(ending):
            return ("-" if value < 0 else "") + text(round(abs(size)))
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
