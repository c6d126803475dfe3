"""The trace of a recording that did not come to its end, from the file that it streamed to."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from opscope import _native
from opscope.errors import LifecycleError, TraceFormatError
from opscope.memory_limit import memory_for
from opscope.recording.assemble import assemble_trace, with_ids_from
from opscope.recording.decoded import read_decoded
from opscope.recording.ledger import Cost, Row
from opscope.recording.module_paths import noted_paths, with_paths
from opscope.recording.narrow import narrowed
from opscope.recording.sources import RecordingOptions
from opscope.recording.stream import NO_ROOM
from opscope.trace.job import place_in_job
from opscope.trace.metadata_kinds import ENDED
from opscope.trace.trace import Trace
from opscope.trace.unfinished_recordings import is_later

HOW_UNKNOWN = "its process ended without stopping it (killed, crashed, os._exit or exec)"
STOPPED = "it was stopped, but its trace was not written"
RUNNING = "it is still being recorded"


@dataclass(frozen=True)
class Recovered:
    """What was read.

    Attributes:
        trace: what was recorded.
        rank: as which it was to be saved; None for that of its job.
        is_running: its process is there still.
    """

    trace: Trace
    rank: int | None
    is_running: bool


def recover(path: Path, how: str = "") -> Recovered:
    """Read the file of a recording.

    Args:
        path: of the file.
        how: what became of its process, where that is known.

    Raises:
        TraceFormatError: there is nothing in it, or another version wrote it.
        InsufficientMemoryError: it does not fit in memory.
    """
    with memory_for(f"reading {path.name}"):
        log, about = _opened(path)
        trace = _trace(log, about, how)
        return Recovered(trace, about["rank"], is_running(log.describe()))


def unfinished_trace(
    begun: Sequence[Path], rank: int | None, ended: Collection[int]
) -> Trace | None:
    """The trace of the recording in a folder that was begun last and did not end.

    Args:
        begun: the files of those that did not end, oldest first.
        rank: as which it was to be saved; None for any.
        ended: ranks that the folder has traces of.

    Returns:
        None if there is a later trace of that rank, or those of others alone.
    """
    for path in reversed(begun):
        _, about = _opened(path)
        own = place_in_job(about["process"])[0] if about["rank"] is None else about["rank"]
        is_asked_for = own == rank if rank is not None else not {*ended} - {own}
        if is_asked_for and is_later(path, own):
            return recover(path).trace
    return None


def _opened(path: Path) -> tuple[_native.StreamedLog, dict[str, Any]]:
    """What is in the file, and what was said of it when it was begun."""
    try:
        log = _native.read_stream(os.fspath(path))
        return log, json.loads(log.about)
    except OSError as error:
        raise TraceFormatError(_unreadable(path, error.strerror or str(error))) from error
    except ValueError as error:
        raise TraceFormatError(_unreadable(path, str(error))) from error


def recover_file(path: Path, how: str = "") -> tuple[Trace, Path]:
    """Write the trace of an unfinished recording into its folder, and remove its file.

    Returns:
        The trace, and the folder.

    Raises:
        LifecycleError: it is being recorded by a process that is there still.
        TraceFormatError: as :func:`recover`.
        UsageError: nothing can be written there.
    """
    recovered = recover(path, how)
    if recovered.is_running:
        raise LifecycleError(
            f"{path} belongs to a process that still runs. Wait for its end; until then "
            "`opscope summary` shows what it has recorded so far."
        )
    recovered.trace.save(path.parent, rank=recovered.rank)
    path.unlink(missing_ok=True)
    return recovered.trace, path.parent


def _trace(log: _native.StreamedLog, about: dict[str, Any], how: str) -> Trace:
    described = log.describe()
    recorded, asked = _options(about["recorded"]), _options(about["asked"])
    decoded = replace(read_decoded(log.decode(about["prefixes"])), no_room=NO_ROOM)
    decoded = with_ids_from(with_paths(decoded, noted_paths(log.notes)), about["first_id"])
    rows = list(_ledger(described, recorded))
    trace = assemble_trace(decoded, recorded, Cost({}, {}), about["process"], rows)
    ended = {
        "how": how or how_it_ended(described),
        "whole": described["has_end"],
        "dropped_from_ns": described["first_loss_ns"],
        "dropped_until_ns": described["last_loss_ns"],
    }
    trace = trace.with_metadata({**about["metadata"], ENDED: ended})
    return narrowed(trace, recorded, asked)


def how_it_ended(described: _native.StreamDescription) -> str:
    """What can be told of a recording without an end by whoever did not see it."""
    if described["has_end"]:
        return STOPPED
    return RUNNING if is_running(described) else HOW_UNKNOWN


def is_running(described: _native.StreamDescription) -> bool:
    """Whether the process that made it still is there, under the program that it ran then."""
    process = described["process_id"]
    if _native.process_identity(process) != (described["process_start"], described["boot_id"]):
        return False
    try:
        maps = Path(f"/proc/{process}/maps").read_text(errors="replace")
    except OSError:  # it is somebody else's
        return True
    return f".recording-{process}-" in maps


def _options(given: dict[str, bool]) -> RecordingOptions:
    known = {f.name for f in fields(RecordingOptions)}
    return RecordingOptions(**{name: value for name, value in given.items() if name in known})


def _ledger(described: _native.StreamDescription, recorded: RecordingOptions) -> Iterator[Row]:
    if described["missing_blocks"]:
        yield (
            "recording",
            "dropped: blocks that never reached the disk",
            described["missing_blocks"],
        )
    if described["has_end"]:
        return
    yield "recording", "has no end: its process ended first", 1
    if recorded.gpu:
        # What devices did lies in the memory of the process until it is decoded.
        yield "recording", "dropped: what devices did, with their process", 1


def _unreadable(path: Path, reason: str) -> str:
    return (
        f"Nothing can be recovered from {path}: {reason}. Delete the file, or read it with the "
        "version of opscope that wrote it."
    )
