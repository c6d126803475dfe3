"""Declaration of a column: type, meaning, permitted values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

TIME: dict[str, Any] = {"least": -(1 << 61) + 1, "most": (1 << 62) - 1, "essential": True}
"""Unix nanoseconds: until the year 2116, so that ends and differences stay within 64 bits."""

DURATION: dict[str, Any] = {
    "least": 0,
    "most": (1 << 61) - 1,
    "most_sum": 1 << 62,
    "essential": True,
}
"""Nanoseconds that passed."""

BYTES: dict[str, Any] = {"least": -(1 << 62), "most": 1 << 62}
"""Numbers of bytes, also signed ones, and totals."""

SIZE: dict[str, Any] = {**BYTES, "most_sum": 1 << 62, "essential": True}
"""Sizes of blocks, negative where they go: views add them up."""

SHAPE: dict[str, Any] = {"least": 0, "most_product": 1 << 62}
"""Sizes whose product is a number of elements."""

POSITION: dict[str, Any] = {"least": -1, "essential": True}
"""Where in a call an argument stood."""

EVENT: dict[str, Any] = {"refers": "events"}
NO_EVENT: dict[str, Any] = {"default": -1, "refers": "events"}
NAME: dict[str, Any] = {"default": -1, "refers": "names"}


class Delivered(Enum):
    """Whether the native decoder fills in a column of the tables that it makes."""

    ALWAYS = 1
    SOMETIMES = 2  # where something asks for it; else every row has its default
    NEVER = 3  # Python may


@dataclass(frozen=True)
class Column:
    """One column.

    The recorder guarantees these constraints on values; ``columns.validate`` checks them for traces
    that are read from disk, so that nothing that looks at a trace has to.

    Attributes:
        name: with its unit, where it has one.
        dtype: NumPy dtype name; ``list[int64]`` for a ragged column; ``string`` only in the tables
            that hold text themselves.
        meaning: one line, shown in the file format documentation.
        default: what a reader fills in when a file lacks the column.
        refers: the table a value is a row of, if it is one; -1 is none where it is the default.
        codes: the codes of opscope's own that it holds, from 0. A newer version may have more.
        unknown: what a reader makes of other codes; None: it leaves the row out.
        least: the smallest value there is, also in a ragged column.
        most: the largest.
        most_sum: the largest sum of all, whatever their signs.
        most_product: the largest product of a ragged column's row.
        as_long_as: the ragged column whose rows have as many values; or this one has none.
        essential: without this column a row says nothing, so a file that lacks it is damaged.
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
        """Whether a row has any number of values."""
        return self.dtype.startswith("list")

    @property
    def required(self) -> bool:
        """Whether a file has to have it, because no default makes sense."""
        is_row = bool(self.refers) and self.default != -1
        return self.essential or self.codes is not None or is_row or self.dtype == "string"


@dataclass(frozen=True)
class TableSchema:
    """One table.

    Attributes:
        name: as in files.
        row: what a row is.
        columns: in order.
        passing: what the native decoder delivers beside them, for those who fill in the rest; no
            trace has it.
    """

    name: str
    row: str
    columns: tuple[Column, ...]
    passing: tuple[Column, ...] = ()

    @property
    def delivered(self) -> tuple[Column, ...]:
        """What the native decoder fills in, if it makes this table."""
        own = (column for column in self.columns if column.delivered is not Delivered.NEVER)
        return (*own, *self.passing)

    def column(self, name: str) -> Column:
        """The column called ``name``."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)
