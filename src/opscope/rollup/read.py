"""What rollups hold, read without the traces that they were made of."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.causes import Cause
from opscope.analysis.collectives.process_collectives import ProcessCollectives
from opscope.rollup.collectives import collectives_of_table
from opscope.rollup.mark import RollupMark, right_mark
from opscope.rollup.places import ProcessPlaces, places_of_table
from opscope.rollup.process_steps import ProcessSteps
from opscope.rollup.schema import (
    ALL,
    CAUSES,
    COLLECTIVES,
    LEDGER,
    PLACES,
    ROLLUP_TABLES,
    STEPS,
    cause_column,
)
from opscope.trace.arrow import pa
from opscope.trace.input_file import checked_in_folder, open_in_folder
from opscope.trace.interop import table_from_arrow
from opscope.trace.read_parquet import ParquetColumns
from opscope.trace.table import Table

Values = npt.NDArray[np.int64]

_CAUSES = {cause.name.lower(): cause for cause in Cause}


@dataclass(frozen=True)
class Rollup:
    """The rollup of a process.

    Attributes:
        folder: where it lies.
        mark: what it says of itself.
    """

    folder: Path
    mark: RollupMark

    @classmethod
    def of(
        cls,
        part: Path,
        folder: Path | None = None,
        tables: Collection[str] = ROLLUP_TABLES,
    ) -> Rollup | None:
        """That of a trace, if it is there and right.

        Args:
            part: folder of the trace.
            folder: where its rollup would be; None for the same.
            tables: that it must have.
        """
        mark = right_mark(folder or part, part, tables)
        return None if mark is None else cls(folder or part, mark)

    def file(self, table: str) -> Path:
        """That a table lies in."""
        return checked_in_folder(self.folder / f"{table}.parquet")

    def table(self, name: str) -> Table | None:
        """One of those that it was asked to have; None where its file is damaged."""
        schema, rows = ROLLUP_TABLES[name], self.mark.tables[name]["rows"]
        try:
            with open_in_folder(self.folder / f"{name}.parquet") as file:
                return table_from_arrow(schema, ParquetColumns(file, rows, file.name))
        except (pa.ArrowException, OSError, ValueError):
            return None

    def steps(self) -> ProcessSteps | None:
        """The steps of the process; None where they cannot be read."""
        table = self.table(STEPS.name)
        causes = None if table is None or len(table) else self.causes_ns(ALL)
        if table is None or (not len(table) and causes is None):
            return None
        table_ns = np.stack([table[cause_column(cause)] for cause in Cause], axis=1)
        return ProcessSteps(
            number=table["step"],
            wall_ns=table["wall_ns"],
            table_ns=table_ns,
            cause_ns=table_ns.sum(axis=0) if causes is None else causes,
            steps_are=self.mark.steps_are,
        )

    def places(self) -> ProcessPlaces | None:
        """Where the process spends its time; None where that cannot be read."""
        table, steps = self.table(PLACES.name), self.mark.tables[STEPS.name]["rows"]
        return None if table is None else places_of_table(table, steps)

    def collectives(self) -> ProcessCollectives | None:
        """The collectives of the process; None where they cannot be read."""
        table, ledger = self.table(COLLECTIVES.name), self.table(LEDGER.name)
        if table is None or ledger is None:
            return None
        try:
            return collectives_of_table(table, ledger)
        except ValueError:
            return None

    def causes_ns(self, period: str) -> Values | None:
        """What the time of a period went to, shape (causes,); None where it cannot be read."""
        table = self.table(CAUSES.name)
        if table is None:
            return None
        found = np.zeros(len(Cause), dtype=np.int64)
        columns: list[Any] = [table[name].tolist() for name in ("period", "cause", "time_ns")]
        for of, cause, time_ns in zip(*columns, strict=True):
            if of == period and cause in _CAUSES:
                found[_CAUSES[cause]] = time_ns
        return found
