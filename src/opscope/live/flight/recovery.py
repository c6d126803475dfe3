"""What is made of each kind of what processes leave; ``leftover`` finds and claims it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opscope.base.artefacts import Artefact, LeftKind, below, find
from opscope.columns.trace_data import TraceData
from opscope.errors import TraceFormatError
from opscope.jobs.saving import save_trace
from opscope.live.flight.dump_writer import finish_dump
from opscope.live.flight.left_rings import dump_ring
from opscope.recording.recovered import recover_file
from opscope.storage.read_part import load_part

_WORDS = {LeftKind.SPOOL: "made into a trace", LeftKind.RING: "made into a dump"}


@dataclass(frozen=True)
class Rescued:
    """The trace that was made of something.

    Attributes:
        trace: itself; of a long recording its last moments.
        folder: that it was written to.
        is_dump: of a flight recorder.
    """

    trace: TraceData
    folder: Path
    is_dump: bool


def left_in(folder: Path, owned_by: str | None = None) -> Iterator[Artefact]:
    """What traces can be made of in a folder, of one process or of all.

    Recordings come first, the newest before the others: of two of the same part the folder shows
    the later one.
    """
    yield from reversed(list(below(folder, LeftKind.STREAM, owned_by=owned_by)))
    yield from find(folder, LeftKind.SPOOL) if owned_by is None else ()
    yield from find(folder, LeftKind.RING, owned_by=owned_by)


def rescue(one: Artefact, how: str = "", wait: bool = False) -> Rescued | None:
    """Make a trace of what an ended process left, and remove that.

    Args:
        one: of ``left_in``.
        how: what became of the process, where that is known.
        wait: for another process that makes one of a recording.

    Returns:
        None where another process has made it, or there is nothing to make one of.

    Raises:
        OpscopeError: none can be made, or the process is still there.
    """
    if one.kind is LeftKind.STREAM:
        found = recover_file(one.path, how, wait, save_trace)
        return None if found is None else Rescued(*found, is_dump=False)
    try:
        saved = dump_ring(one.path, how) if one.kind is LeftKind.RING else finish_dump(one.path)
    except (OSError, ValueError) as error:
        raise TraceFormatError(
            f"{one.path} cannot be {_WORDS[one.kind]}: {error}. Delete it if you do not need it."
        ) from error
    return None if saved is None else Rescued(load_part(saved), saved, is_dump=True)
