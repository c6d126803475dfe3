"""Makes traces of unfinished recordings, dumps and rings of ended processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opscope.base.artefacts import Artefact, LeftKind, below, find, owner
from opscope.columns.trace_data import TraceData
from opscope.errors import LifecycleError, OpscopeError, TraceFormatError
from opscope.jobs.saving import save_trace
from opscope.live.flight.dump_writer import finish_dump
from opscope.live.flight.orphaned_rings import dump_ring
from opscope.recording.recovered import NothingRecorded, part_of_recording, recover_file
from opscope.storage.processes import read_journal
from opscope.storage.read_part import load_part
from opscope.storage.store import remove_begun

_WORDS = {LeftKind.SPOOL: "made into a trace", LeftKind.RING: "made into a dump"}


@dataclass(frozen=True)
class Rescued:
    """A recovered trace."""

    trace: TraceData  # only the last part of a long recording
    folder: Path  # folder of the trace
    is_dump: bool  # whether it is a dump of a flight recorder


def left_in(folder: Path, owned_by: str | None = None) -> Iterator[Artefact]:
    """Unfinished recordings, dumps and rings in a folder.

    Recordings come first, newest before older: the folder shows the later of two recordings of a
    process.
    """
    yield from reversed(list(below(folder, LeftKind.STREAM, owned_by=owned_by)))
    yield from find(folder, LeftKind.SPOOL) if owned_by is None else ()
    yield from find(folder, LeftKind.RING, owned_by=owned_by)


def rescue(item: Artefact, how: str = "", wait: bool = False) -> Rescued | None:
    """Make a trace of an unfinished recording, dump or ring, and remove that.

    Args:
        item: result of ``left_in``.
        how: how the process ended, if known.
        wait: wait for another process that makes the trace of a recording.

    Returns:
        None if another process has made the trace, or nothing was recorded.

    Raises:
        OpscopeError: no trace can be made, or the process still runs.
    """
    if item.kind is LeftKind.STREAM:
        recovered = recover_file(item.path, how, wait, save_trace)
        return None if recovered is None else Rescued(*recovered, is_dump=False)
    try:
        saved = dump_ring(item.path, how) if item.kind is LeftKind.RING else finish_dump(item.path)
    except (OSError, ValueError) as error:
        raise TraceFormatError(
            f"{item.path} cannot be {_WORDS[item.kind]}: {error}. Delete it if you do not need it."
        ) from error
    return None if saved is None else Rescued(load_part(saved), saved, is_dump=True)


_HOW = {"killed": "its process was {}", "exited": "its process {}", "became": "its process {}"}


def recover_ended(folder: Path) -> list[OpscopeError]:
    """Make traces of recordings in ``folder`` and its cycles whose processes have ended.

    Returns the errors. Several processes may call this at the same time.
    """
    remove_begun(folder)
    failures: list[OpscopeError] = []
    for item in reversed(list(below(folder, LeftKind.STREAM))):
        if item.owner == owner():
            continue
        try:
            how = _end_text(folder, item.path)
            rescue(item, how, wait=True)
        except (LifecycleError, NothingRecorded):  # the process still runs; the file is empty
            continue
        except OpscopeError as error:
            if item.path.exists():  # else another process has written its trace
                failures.append(error)
    return failures


def _end_text(folder: Path, path: Path) -> str:
    try:
        part = part_of_recording(path)
    except NothingRecorded:
        return ""
    ended = [entry.ended for entry in read_journal(folder) if entry.partition == part]
    return _HOW.get(ended[-1].partition(" ")[0], "{}").format(ended[-1]) if any(ended) else ""
