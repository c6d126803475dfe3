"""Writes the rollup of a process into its folder, or elsewhere."""

from __future__ import annotations

from contextlib import suppress
from math import ceil
from pathlib import Path

from opscope.base.artefacts import unfinished_name
from opscope.base.input_file import shown_path
from opscope.base.memory_limit import require_memory
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError
from opscope.jobs.rollup.contents import contents_of
from opscope.jobs.rollup.read import RollupMark, content_of
from opscope.storage.interop import table_to_arrow
from opscope.storage.manifest import ROLLUP
from opscope.storage.parquet import pq, writer_options
from opscope.storage.partition import part_of_folder
from opscope.storage.read_part import load_part

_BYTES_PER_EVENT = 400  # approximate memory for making a rollup, besides the trace
BYTES_PER_EVENT_READ = 800  # the same including reading the trace
_MOST_LOST = 1 << 53  # largest exact float of the ledger


def roll_up_saved(folder: Path, trace: TraceData) -> None:
    """Write the rollup of a trace that was just saved; none if that fails.

    The first question makes it again, so no error here matters to a program that saves. torch is
    not imported: the process may be about to end.
    """
    try:
        write_rollup(folder, folder, trace, may_import_torch=False)
    except Exception:
        with suppress(OSError):
            (folder / ROLLUP).unlink(missing_ok=True)


def write_rollup(
    folder: Path,
    into: Path,
    trace: TraceData | None = None,
    may_import_torch: bool = True,
) -> RollupMark:
    """Make the rollup of the part in ``folder``; ``trace``: its trace, if it is in memory.

    Raises:
        TorchNeededError: see :func:`contents_of`.
        TraceFormatError: it cannot be read.
        InsufficientMemoryError: it does not fit in memory.
        OSError: it cannot be written.
    """
    part = part_of_folder(folder)
    if part is None:
        raise TraceFormatError(f"{folder} is not the folder of a process, such as rank=00003.")
    manifest_hash = content_of(folder)
    trace = load_part(folder) if trace is None else trace
    require_memory(
        len(trace.events) * _BYTES_PER_EVENT, f"computing statistics of {shown_path(folder)}"
    )
    contents = contents_of(trace, part, may_import_torch)
    # A concurrent reader finds no rollup, instead of parts of two.
    (into / ROLLUP).unlink(missing_ok=True)
    mark = RollupMark(
        of=manifest_hash,
        part=folder.name,
        events=contents.events,
        lost=ceil(min(trace.ledger.missing(), _MOST_LOST)),
        steps_are=contents.steps_are,
        step_ns=contents.step_ns,
        tables={name: _write(into, name, table) for name, table in contents.tables.items()},
    )
    mark.write(into)
    return mark


def _write(folder: Path, name: str, table: Table) -> dict[str, int]:
    data = table_to_arrow(table)
    file, unfinished = folder / f"{name}.parquet", folder / unfinished_name(f"{name}.parquet")
    try:
        pq.write_table(data, unfinished, **writer_options(name, data))
        size = unfinished.stat().st_size
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
    return {"rows": data.num_rows, "bytes": size}
