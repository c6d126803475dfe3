"""The rollups of a job's processes: those that are there and right, and those made for a question.

What is missing is made in a folder of its own, which goes with the job: asking changes no
recording. `opscope rollup` makes them to stay. The first time it is the tables that were asked for:
most who ask do so once. After that it is all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from opscope.errors import TraceFormatError
from opscope.rollup.read import Rollup
from opscope.rollup.schema import ROLLUP_TABLES
from opscope.rollup.several import roll_up_several
from opscope.scratch import Scratch
from opscope.trace.partition import Partition
from opscope.trace.read_part import part_as_needed
from opscope.trace.save_apart import save_trace
from opscope.trace.trace import Trace

Unreadable = Callable[[Partition, str], TraceFormatError]
"""The error for a process that cannot be read, of why."""


def _as_it_is(_: Partition, why: str) -> TraceFormatError:
    return TraceFormatError(why)


class RolledUp:
    """Of one job. Any thread may ask, and a forked child: one adds up at a time."""

    def __init__(self) -> None:
        self._made: dict[Partition, Path] = {}
        self._scratch = Scratch()

    def __reduce__(self) -> tuple[type[RolledUp], tuple[()]]:
        """A copy makes its own: what was made here goes with this one."""
        return type(self), ()

    def there(
        self, folders: Mapping[Partition, Path], tables: Collection[str] = ROLLUP_TABLES
    ) -> dict[Partition, Rollup]:
        """Those that need not be made.

        Args:
            folders: of the traces.
            tables: that are needed.
        """
        found = {}
        for part, folder in folders.items():
            rollup = Rollup.of(folder, tables=tables)
            if rollup is None and part in self._made:
                rollup = Rollup.of(folder, self._made[part], tables)
            if rollup is not None:
                found[part] = rollup
        return found

    def all(
        self,
        folders: Mapping[Partition, Path],
        unreadable: Unreadable = _as_it_is,
        tables: Collection[str] = ROLLUP_TABLES,
    ) -> dict[Partition, Rollup]:
        """Those of all, of which the missing ones are made now, beside each other.

        Args:
            folders: of the traces.
            tables: that are needed.
            unreadable: makes the error for one that cannot be added up.

        Raises:
            TraceFormatError: one cannot be made.
        """
        with self._scratch.lock:  # what another thread makes meanwhile is there then
            found = self.there(folders, tables)
            missing = {part: folder for part, folder in folders.items() if part not in found}
            if missing:
                self._make(missing, unreadable, ROLLUP_TABLES if self._made else tables)
                found |= self.there(missing, tables)
        _check(folders, found)
        return {part: found[part] for part in folders}

    def incomplete(self, folders: Mapping[Partition, Path]) -> Iterator[Partition]:
        """Those of which something was dropped, or is known to a newer opscope alone; of one that
        cannot be read it is not known.

        Args:
            folders: of the traces.
        """
        there = self.there(folders, ())
        for part, folder in folders.items():
            lost = 0.0
            if part in there:
                lost = there[part].mark.lost
            else:
                with suppress(TraceFormatError), part_as_needed(folder) as trace:
                    lost = trace.ledger.missing()
            if lost:
                yield part

    def saved(self, part: Partition, trace: Trace) -> Path:
        """The folder of a trace that is not on disk as such, with its rollup, for as long as the
        job is looked at.

        Raises:
            UsageError: nothing can be written to the folder for temporary files.
        """
        with self._scratch.lock:
            return save_trace(trace, self._scratch.folder / "traces", part)

    def _make(
        self,
        missing: Mapping[Partition, Path],
        unreadable: Unreadable,
        tables: Collection[str],
    ) -> None:
        into = {part: self._scratch.folder / folder.name for part, folder in missing.items()}
        failed = roll_up_several({folder: into[part] for part, folder in missing.items()}, tables)
        for part, folder in missing.items():
            if folder in failed:
                raise unreadable(part, failed[folder])
        self._made |= into


def _check(parts: Iterable[Partition], found: Mapping[Partition, Rollup]) -> None:
    for part in parts:
        if part not in found:
            raise TraceFormatError(
                f"What was added up of {part} is gone or was replaced while it was needed. Ask "
                "again when nothing writes to the folder."
            )
