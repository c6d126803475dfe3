"""What rollups hold, read without the traces that they were made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.analysis.collectives.process_collectives import ProcessCollectives
from opscope.base.arrow import pa
from opscope.base.input_file import checked_in_folder, open_in_folder, shown_path
from opscope.columns.causes import Cause
from opscope.columns.table import Table
from opscope.errors import UnreadableProcessError
from opscope.jobs.rollup.collectives import collectives_of_table
from opscope.jobs.rollup.mark import RollupMark, right_mark
from opscope.jobs.rollup.places import ProcessPlaces, places_of_table
from opscope.jobs.rollup.schema import CAUSES, COLLECTIVES, LEDGER, PLACES, ROLLUP_TABLES, STEPS
from opscope.storage.interop import table_from_arrow
from opscope.storage.parquet import ParquetColumns
from opscope.storage.partition import part_of_folder
from opscope.timeline.period import Which

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
    def of(cls, part: Path, folder: Path | None = None) -> Rollup | None:
        """That of a trace, if it is there and right.

        Args:
            part: folder of the trace.
            folder: where its rollup would be; None for the same.
        """
        mark = right_mark(folder or part, part)
        return None if mark is None else cls(folder or part, mark)

    def file(self, table: str) -> Path:
        """That a table lies in."""
        return checked_in_folder(self.folder / f"{table}.parquet")

    def table(self, name: str) -> Table:
        """One of those that it has.

        Raises:
            UnreadableProcessError: it is damaged, as in all that follows.
        """
        schema, rows = ROLLUP_TABLES[name], self.mark.tables[name]["rows"]
        try:
            with open_in_folder(self.folder / f"{name}.parquet") as file:
                return table_from_arrow(schema, ParquetColumns(file, rows, file.name))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(name) from error

    def places(self) -> ProcessPlaces:
        """Where the process spends its time."""
        return places_of_table(self.table(PLACES.name), self.mark.tables[STEPS.name]["rows"])

    def collectives(self) -> ProcessCollectives:
        """The collectives of the process."""
        try:
            return collectives_of_table(self.table(COLLECTIVES.name), self.table(LEDGER.name))
        except ValueError as error:
            raise self._damaged(COLLECTIVES.name) from error

    def causes_ns(self, which: Which) -> Values:
        """What the time of a period went to, shape (causes,)."""
        table = self.table(CAUSES.name)
        found = np.zeros(len(Cause), dtype=np.int64)
        columns: list[Any] = [table[name].tolist() for name in ("period", "cause", "time_ns")]
        for period, cause, time_ns in zip(*columns, strict=True):
            if period == which.value and cause in _CAUSES:
                found[_CAUSES[cause]] = time_ns
        return found

    def _damaged(self, table: str) -> UnreadableProcessError:
        part = part_of_folder(Path(self.mark.part))
        file = shown_path(self.folder / f"{table}.parquet")
        why = f"{file} is damaged. Make it anew: `opscope rollup --again`."
        return UnreadableProcessError(why, part, why)
