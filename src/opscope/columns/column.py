"""Declaration of a column: type, meaning, permitted values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

TIME: dict[str, Any] = {"least": -(1 << 61) + 1, "most": (1 << 62) - 1, "essential": True}
"""Unix nanoseconds until the year 2116, so that ends and differences fit in 64 bits."""

DURATION: dict[str, Any] = {
    "least": 0,
    "most": (1 << 61) - 1,
    "most_sum": 1 << 62,
    "essential": True,
}
"""Nanoseconds."""

BYTES: dict[str, Any] = {"least": -(1 << 62), "most": 1 << 62}
"""Bytes, including signed values and totals."""

SIZE: dict[str, Any] = {**BYTES, "most_sum": 1 << 62, "essential": True}
"""Sizes of blocks, negative for frees; views add them up."""

SHAPE: dict[str, Any] = {"least": 0, "most_product": 1 << 62}
"""Sizes whose product is a number of elements."""

POSITION: dict[str, Any] = {"least": -1, "essential": True}  # position of an argument in a call
EVENT: dict[str, Any] = {"refers": "events"}
NO_EVENT: dict[str, Any] = {"default": -1, "refers": "events"}
NAME: dict[str, Any] = {"default": -1, "refers": "names"}


class Delivered(Enum):
    """Whether the native decoder fills in a column of its tables."""

    ALWAYS = 1
    SOMETIMES = 2  # only on request; otherwise every row has the default
    NEVER = 3  # only Python fills it in


@dataclass(frozen=True)
class Column:
    """Declaration of a column.

    The recorder guarantees these limits, and ``columns.validate`` checks them in traces read from
    disk, so that no other code has to.

    Attributes:
        name: with its unit if it has one.
        dtype: NumPy dtype name; ``list[int64]`` for a ragged column; ``string`` only in tables that
            hold text themselves.
        meaning: one line for the documentation of the file format.
        default: value if a file lacks the column.
        refers: table that values are rows of; -1 is none if it is the default.
        codes: opscope's own codes in the column, from 0. A newer version may have more.
        unknown: replacement of unknown codes; None: the reader omits the row.
        least: smallest value, also in a ragged column.
        most: largest value.
        most_sum: largest sum of absolute values.
        most_product: largest product of a row of a ragged column.
        as_long_as: ragged column with the same row lengths; rows of this one may also be empty.
        essential: a row has no meaning without the column, so a file that lacks it is damaged.
        delivered: whether the native decoder fills it in, if it makes the table.
    """

    name: str
    dtype: str
    meaning: str
    default: int = 0
    refers: str = ""
    codes: type[IntEnum] | None = None
    unknown: int | None = None
    least: int | None = None
    most: int | None = None
    most_sum: int | None = None
    most_product: int | None = None
    as_long_as: str = ""
    essential: bool = False
    delivered: Delivered = Delivered.ALWAYS

    @property
    def is_list(self) -> bool:
        """Whether the column is ragged: any number of values per row."""
        return self.dtype.startswith("list")

    @property
    def required(self) -> bool:
        """Whether a file must have the column, because no default makes sense."""
        is_row = bool(self.refers) and self.default != -1
        return self.essential or self.codes is not None or is_row or self.dtype == "string"


@dataclass(frozen=True)
class TableSchema:
    """Declaration of a table.

    Attributes:
        name: name in files.
        row: meaning of a row.
        extra: columns that the native decoder adds for Python's post-processing; not in traces.
    """

    name: str
    row: str
    columns: tuple[Column, ...]
    extra: tuple[Column, ...] = ()

    @property
    def delivered(self) -> tuple[Column, ...]:
        """Columns that the native decoder fills in, if it makes this table."""
        own = (column for column in self.columns if column.delivered is not Delivered.NEVER)
        return (*own, *self.extra)

    def column(self, name: str) -> Column:
        """Column called ``name``; KeyError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)
