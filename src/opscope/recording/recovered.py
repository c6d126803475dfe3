"""Recovers the trace of an unfinished recording from its file."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, TypeAlias

import opscope._native as _native
from opscope.base.artefacts import Artefact, LeftKind, at, claimed, find, is_alive, remove
from opscope.base.memory_limit import memory_for
from opscope.base.untrusted_files import COUNT, Shape, has_shape, parsed_json, reading
from opscope.columns.confidential_copy import CONFIDENTIAL, apply_confidentiality
from opscope.columns.metadata_kinds import ENDED
from opscope.columns.trace_data import TraceData
from opscope.columns.validate import checked_trace
from opscope.errors import OpscopeError, TraceFormatError, UsageError
from opscope.launch.keeper_process import BECAME_ANOTHER, NOT_WRITTEN
from opscope.recording.assemble import assemble_trace
from opscope.recording.claims import ours
from opscope.recording.decoded import Decoded, read_decoded
from opscope.recording.facts.process_groups import with_job_from_notes
from opscope.recording.facts.program_facts import NO_FACTS, ProgramFacts, with_state
from opscope.recording.gpu.events import with_devices
from opscope.recording.ledger import Row
from opscope.recording.segments import (
    NEVER_DRAINED,
    Drain,
    RecordingSegment,
    draining,
    remove_segments,
    segments_of,
)
from opscope.recording.sources import RecordingOptions
from opscope.recording.streams.merge_segments import Merge, can_match_frees
from opscope.recording.streams.stream import NO_ROOM
from opscope.storage.job import place_in_job
from opscope.storage.long_trace import end_of_trace
from opscope.storage.partition import RANK, Partition, chosen_partition
from opscope.storage.processes import job_of, metadata_of
from opscope.storage.read_part import load_part
from opscope.storage.store import save_part

HOW_UNKNOWN = "its process ended without stopping it (killed, crashed, os._exit or exec)"
STOPPED = "it was stopped, but its trace was not written"
_NO_ROOM = errno.ENOSPC, errno.EDQUOT, errno.EFBIG
LONG_BYTES = 512 << 20  # a larger recording is decoded in pieces
LONG_PLAIN_BYTES = 128 << 20
"""Limit for recordings without ids of tensors and memory, which decoding in pieces would lose."""

RUNNING = "it is still being recorded"
_ABOUT_SHAPE: Shape = {
    "recorded": dict,
    "prefixes": [str],
    "process": dict,
    "rank": (COUNT, None),
    "metadata": dict,
}
"""Shape of the facts in every recording, see ``about_recording``."""


class NothingRecorded(TraceFormatError):
    """The file has no records: its process has just created it, or died at that point."""


Save: TypeAlias = Callable[[TraceData, Path, "Partition | None"], object]


def recover(path: Path, how: str = "", facts: ProgramFacts = NO_FACTS) -> TraceData:
    """Read the file of a recording.

    Args:
        how: how its process ended, if known.
        facts: facts from the process at its end.

    Raises:
        TraceFormatError: the file is empty, or another version wrote it.
        InsufficientMemoryError: the recording does not fit in memory.
    """
    with memory_for(f"reading {path.name}"), reading(path):
        log, about = _opened(path)
        one = at(path)
        if not how and not log.describe()["has_end"] and one is not None and is_alive(one):
            how = RUNNING
        if segments_of(path):
            return _trace_of_long(path, about, how)
        return checked_trace(_trace(log, about, how, facts), str(path))


def _trace_of_long(path: Path, about: Mapping[str, Any], how: str) -> TraceData:
    """Decode an unfinished recording in pieces; modifies nothing."""
    with draining(path), tempfile.TemporaryDirectory(prefix="opscope-") as place:
        drain = Drain(path, about["prefixes"], Path(place))
        drain.finish()
        folder = Path(place) / "trace"
        _merge(path, drain.segments, folder, how)
        try:
            return load_part(folder)
        except TraceFormatError as error:  # the error names the temporary folder
            raise ValueError(str(error)) from error


def read_parts(
    begun: Iterable[Path], unreadable: dict[Path, TraceFormatError]
) -> Iterator[tuple[Path, Partition]]:
    """Unfinished recordings, each with the part of the folder that it will be saved as.

    Puts errors of unreadable ones into ``unreadable``. Skips removed ones: they have a trace now.
    """
    for path in begun:
        try:
            part = part_of_recording(path)
        except TraceFormatError as error:
            if path.exists():
                unreadable[path] = error
        else:
            yield path, part


def part_of_recording(path: Path) -> Partition:
    """Part of the folder that an unfinished recording will be saved as."""
    return _part_of(about_of(path))


def _part_of(about: Mapping[str, Any]) -> Partition:
    return _requested_part(about) or Partition(RANK, place_in_job(about["process"])[0])


def unreadable_recordings(begun: Iterable[Path]) -> list[TraceFormatError]:
    """Errors of unfinished recordings that cannot be read; without those that still run."""
    found: dict[Path, TraceFormatError] = {}
    for _ in read_parts(begun, found):
        pass
    return [
        error
        for path, error in found.items()
        if not (isinstance(error, NothingRecorded) and is_alive(_of(path)))
    ]


def _requested_part(about: Mapping[str, Any]) -> Partition | None:
    return chosen_partition(about["rank"], about.get("process_number"))


def about_of(path: Path) -> dict[str, Any]:
    """Facts written when a recording began."""
    return _opened(path)[1]


def _opened(path: Path) -> tuple[_native.StreamedLog, dict[str, Any]]:
    """Log of the file, and the facts written when it began."""
    with reading(path):
        try:
            log = _native.read_stream(os.fspath(path))
            about: dict[str, Any] = parsed_json(log.about, _ABOUT_SHAPE)
            if not has_shape(about.get("process_number"), (COUNT, None)):
                raise ValueError("its process ID is invalid")
            return log, about
        except OSError as error:
            raise ValueError(error.strerror or str(error)) from error
        except _native.NothingRecordedError as error:
            raise NothingRecorded(
                f"Nothing can be recovered from {path}: {error}. This recording is lost."
            ) from error


def recover_file(
    path: Path, how: str = "", wait: bool = False, save: Save = save_part
) -> tuple[TraceData, Path] | None:
    """Write the trace of an unfinished recording into its folder, and remove its file.

    Args:
        how: how its process ended, if known.
        wait: wait for another process that recovers it.
        save: writes the trace; by default without rollups for questions about a job.

    Returns:
        The trace (of a long recording its last part) and the folder; None if another process has
        written it.

    Raises:
        LifecycleError: a running process records to it.
        TraceFormatError: as :func:`recover`. An empty file is removed.
        UsageError: the folder cannot be written, or has a later trace of the part.
    """
    one = _of(path)
    with ours(one, wait) as is_there:
        if not is_there:
            return None
        try:
            trace = _recover_ours(path, how, save)
        except NothingRecorded:
            remove(one)
            raise
        _remove_superseded(one)
        remove(one)
    return trace, path.parent


def _remove_superseded(one: Artefact) -> None:
    """Remove earlier recordings by the same process of the same part."""
    part = part_of_recording(one.path)
    for other in find(one.folder, LeftKind.STREAM, owned_by=one.owner) if one.owner else ():
        with suppress(OSError, OpscopeError):
            if other.number < one.number and part_of_recording(other.path) == part:
                with claimed(other) as is_there:
                    if is_there:
                        remove(other)


def _recover_ours(path: Path, how: str, save: Save) -> TraceData:
    log, about = _opened(path)
    _refuse_earlier(path, log.describe()["started_ns"], about)
    if is_long(path, about):
        return end_of_trace(save_long(path, path.parent, how))
    trace = recover(path, how)
    with left_to_be_recovered(path.name, path.parent):
        save(trace, path.parent, _requested_part(about))
    return trace


def _refuse_earlier(path: Path, started_ns: int, about: Mapping[str, Any]) -> None:
    """Raise UsageError if the trace would replace a later one, or join another job."""
    part = _part_of(about)
    there = metadata_of(path.parent / part.folder_name).get("start_ns")
    job = job_of(path.parent)
    if (isinstance(there, int) and there > started_ns) or (job and job != about.get("job", "")):
        raise UsageError(
            f"{path.name} is a recording of {part} by an earlier run than the rest of "
            f"{path.parent}, so it was not recovered. Delete it, or move it to a new folder and "
            "run `opscope doctor --recover` there."
        )


def _of(path: Path) -> Artefact:
    found = at(path)
    assert found is not None, f"{path} is not the name of a recording"
    return found


def is_long(path: Path, about: Mapping[str, Any]) -> bool:
    """Whether a recording is too large to be decoded at once, or is drained already."""
    if segments_of(path):
        return True
    has_ids = any(about["recorded"].get(option) for option in ("shapes", "outputs", "memory"))
    most = LONG_BYTES if has_ids else LONG_PLAIN_BYTES
    return path.stat().st_size > most and is_drainable(about)


def is_drainable(about: Mapping[str, Any]) -> bool:
    """Whether a recording can be decoded in pieces."""
    throughout = about.get("throughout", about["recorded"])
    if CONFIDENTIAL in about["process"]:  # removing texts needs the whole trace
        return False
    return not any(throughout.get(o) for o in NEVER_DRAINED)


def save_long(
    path: Path,
    folder: Path,
    how: str = "",
    facts: ProgramFacts = NO_FACTS,
    with_own_state: Callable[[Decoded], Decoded] | None = None,
) -> Path:
    """Write the trace of an ended recording, with only a part of it in memory.

    ``with_own_state``: adds the listeners' facts, in the recorded process; None: from its notes.
    """
    try:
        with draining(path), reading(path):
            drain = Drain(path, _opened(path)[1]["prefixes"])
            drain.finish()
            return _merge(path, drain.segments, folder, how, facts, with_own_state)
    except OSError as error:
        raise _is_kept(path.name, path.parent, error) from error


@contextmanager
def left_to_be_recovered(what: str, folder: Path) -> Iterator[None]:
    """If writing a trace to ``folder`` fails, raise UsageError: the recording ``what`` is kept."""
    try:
        yield
    except UsageError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        raise _is_kept(what, folder, error.__cause__) from error
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise _is_kept(what, folder, error) from error


def _is_kept(what: str, folder: Path, error: OSError) -> UsageError:
    return UsageError(
        f"The trace of {what} cannot be written: {error.strerror or error}. The recording is "
        "kept; free space on its disk, then run `opscope doctor --recover "
        f"{quote(str(folder))}`."
    )


def _merge(
    path: Path,
    segments: Sequence[RecordingSegment],
    folder: Path,
    how: str,
    facts: ProgramFacts = NO_FACTS,
    with_own_state: Callable[[Decoded], Decoded] | None = None,
) -> Path:
    log, about = _opened(path)
    described = log.describe()
    described["missing_blocks"] = segments[-1].account()["missing_blocks"]
    recorded = RecordingOptions.from_mapping(about["recorded"])
    rows = [*_ledger(described), *_of_long(segments)]
    notes = [json.loads(note) for note in log.notes]
    metadata = {**about["metadata"]}
    if with_own_state is None and not _ended_as_planned(described, about):
        metadata[ENDED] = _ended(described, how)
    added_to = with_own_state or partial(with_state, options=recorded, notes=notes)
    process = with_job_from_notes(about["process"], notes)
    merge = Merge(segments, recorded, process, added_to, facts.cost, rows)
    return merge.save(folder, _requested_part(about), {**metadata, **facts.metadata})


def about_ended(path: Path) -> dict[str, Any]:
    """Facts from the begin of an ended recording; TraceFormatError if it has not ended."""
    log, about = _opened(path)
    with reading(path):
        if not log.describe()["has_end"]:
            raise ValueError("it was not stopped")
    return about


def is_of_another_run(path: Path, folder: Path) -> bool:
    """Whether another process has written a trace in this recording's place since it began."""
    log, about = _opened(path)
    there = metadata_of(folder / _part_of(about).folder_name)
    ended, own = there.get("end_ns"), about["process"]
    if not isinstance(ended, int) or ended < log.describe()["started_ns"]:
        return False
    return any(there.get(key) != own.get(key) for key in ("process_id", "boot_id", "host_name"))


def _ended_as_planned(described: _native.StreamDescription, about: Mapping[str, Any]) -> bool:
    return described["has_end"] and bool(about.get("is_left_to_others"))


def _of_long(segments: Sequence[RecordingSegment]) -> Iterator[Row]:
    tensors = sum(segment.rows.get("tensors", 0) for segment in segments)
    if tensors:
        yield "tensor ids", "unknown: the recording is too long", tensors
    memory = sum(segment.rows.get("allocations", 0) for segment in segments)
    if memory and not can_match_frees(segments):
        yield (
            "allocation ids",
            "unknown: the recording is too long",
            memory,
        )


def _ended(described: _native.StreamDescription, how: str) -> dict[str, Any]:
    if described["has_end"] and (how == BECAME_ANOTHER or how.endswith(NOT_WRITTEN)):
        how = ""  # stopped first: the keeper saw only that the file was no longer mapped
    return {
        "how": how or (STOPPED if described["has_end"] else HOW_UNKNOWN),
        "whole": described["has_end"],
        "dropped_from_ns": described["first_loss_ns"],
        "dropped_until_ns": described["last_loss_ns"],
        "gaps": described["gaps"],
    }


def _trace(
    log: _native.StreamedLog, about: dict[str, Any], how: str, facts: ProgramFacts
) -> TraceData:
    described = log.describe()
    recorded = RecordingOptions.from_mapping(about["recorded"])
    decoded = with_devices(read_decoded(log.decode(about["prefixes"])))
    decoded = replace(decoded, no_room=NO_ROOM)
    notes = [json.loads(note) for note in log.notes]
    decoded = with_state(decoded, recorded, notes)
    rows = [*_ledger(described)]
    if recorded.gpu and decoded.devices is None and not decoded.gpu_refused:
        rows.append(("recording", "dropped: device activity, lost with the process", 1))
    process = with_job_from_notes(about["process"], notes)
    trace = assemble_trace(decoded, recorded, facts.cost, process, rows)
    ended = {} if _ended_as_planned(described, about) else {ENDED: _ended(described, how)}
    trace = trace.with_metadata({**about["metadata"], **facts.metadata, **ended})
    return apply_confidentiality(trace)


def _ledger(described: _native.StreamDescription) -> Iterator[Row]:
    if described["missing_blocks"]:
        yield (
            "recording",
            "dropped: blocks that were not written to disk",
            described["missing_blocks"],
        )
    if not described["has_end"]:
        yield "recording", "has no end: its process ended first", 1
    if described["gaps"]:
        yield "recording", "periods without free disk space", len(described["gaps"])


def drain_while(recording: Path, continues: Callable[[], bool]) -> None:
    """Move a growing recording to segments until ``continues`` returns False."""
    about = about_of(recording)
    if not is_drainable(about):
        return
    drained: Drain | None = None
    while True:
        with draining(recording):
            if not recording.exists():  # its trace has been written
                return remove_segments(recording)
            if drained is None or drained.is_behind():
                drained = Drain(recording, about["prefixes"])
            more = drained.next()
        if not more and not continues():
            return
