"""Makes traces of unfinished recordings and dumps, and dumps of rings, of ended processes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import opscope._native as _native
from opscope.base.artefacts import (
    NOTE,
    Artefact,
    LeftKind,
    at,
    below,
    find,
    in_memory,
    locked_folder,
    owner,
    remove,
)
from opscope.base.files import remove_inside
from opscope.base.locks import turn_of
from opscope.base.untrusted_files import COUNT, Shape, parsed_json, reading
from opscope.columns.trace_data import TraceData
from opscope.errors import LifecycleError, OpscopeError, TraceFormatError
from opscope.jobs.saving import save_trace
from opscope.launch.keeper_process import BECAME_ANOTHER, NOT_WRITTEN
from opscope.live.flight.dump_request import SPOOL_PREFIX, Reason, disk_bytes, is_complete
from opscope.live.flight.ring import PLACES_NOTE
from opscope.live.flight.write_dump import PLACES, write_dump
from opscope.recording.claims import ours
from opscope.recording.recovered import (
    HOW_UNKNOWN,
    NothingRecorded,
    left_to_be_recovered,
    part_of_recording,
    recover_file,
)
from opscope.storage.processes import read_journal
from opscope.storage.read_part import load_part
from opscope.storage.store import remove_begun

_FACTS: Shape = {"max_disk_bytes": COUNT, "ledger": list}
_INCOMPLETE = "its file was full, or another recording used it: the last part is missing"
_REGULAR_ENDS = frozenset({BECAME_ANOTHER, f"its process exited with code 0 {NOT_WRITTEN}"})
"""Regular ends of a process, which need no dump."""


def dump_ring(name: Path, how: str = "") -> Path | None:
    """Make a dump of the ring of an ended process, and remove the ring.

    Args:
        name: the ring or its note, in the folder of the dumps.
        how: how the process ended, if known.

    Returns:
        The trace. None: the process ended regularly, another process has made the dump, or the ring
        is empty.

    Raises:
        LifecycleError: the process still runs.
        OpscopeError: the dump cannot be written, or dumps reach their limit; the ring stays.
        OSError: the ring cannot be read.
    """
    with _claimed(name) as (ring, exists), reading(name):
        saved = _dump_claimed(ring, how) if exists else None
        remove(ring)
        _remove_begun_dumps(ring)
    return saved


def finish_dump(spool: Path) -> Path | None:
    """Make the trace of a dump whose writer process has died; None if another process has made it.

    Raises:
        OpscopeError: the trace cannot be written, or another process writes it.
        OSError, ValueError: the spool cannot be read.
    """
    with _claimed(spool) as (artefact, exists):
        if not exists:
            return None
        if not is_complete(spool):
            remove(artefact)
            raise ValueError("the program was killed before the dump was complete; it was removed")
        return write_dump(spool)


@contextmanager
def _claimed(path: Path) -> Iterator[tuple[Artefact, bool]]:
    """The ring or dump, and whether it is there; one process of a folder works at a time."""
    one = at(path)
    assert one is not None, f"{path} is not the name of a ring or a dump"
    with turn_of(one.folder), ours(one) as exists, left_to_be_recovered(one.name, one.folder):
        yield one, exists


def _dump_claimed(ring: Artefact, how: str) -> Path | None:
    log = _read(ring)
    if log is None or how in _REGULAR_ENDS or not log.about:
        return None
    facts = parsed_json(log.about, _FACTS)
    _refuse_if_full(ring.path, facts)
    return _write(ring, log, facts, how or HOW_UNKNOWN)


def _read(ring: Artefact) -> _native.StreamedLog | None:
    file = in_memory(ring) or ring
    if file is ring and ring.name.endswith(NOTE):
        raise ValueError("it was in the memory of a container or machine that has ended")
    try:
        log = _native.read_stream(os.fspath(file.path))
    except _native.NothingRecordedError:
        return None
    if file is not ring and log.describe()["identity"] != file.name:
        raise ValueError(f"{file.path} belongs to another ring")
    return log


def _refuse_if_full(name: Path, facts: dict[str, Any]) -> None:
    used, most = disk_bytes(name.parent), facts["max_disk_bytes"]
    if used >= most:
        raise TraceFormatError(
            f"No dump was made of {name}: dumps fill {used >> 20:,} MiB, the limit is "
            f"{most >> 20:,} MiB. Remove some dumps, then run `opscope doctor --recover "
            f"{name.parent}`."
        )


def _remove_begun_dumps(ring: Artefact) -> None:
    for spool in find(ring.folder, LeftKind.SPOOL, owned_by=ring.owner):
        if not is_complete(spool.path):
            remove(spool)


def _lost(described: _native.StreamDescription) -> Iterator[tuple[str, str, float]]:
    source = "flight recorder"
    if described["gaps"]:
        blocks = sum(lost for _, _, lost in described["gaps"])
        yield source, "dropped: blocks of up to 1,364 events, no room in its file", float(blocks)
    if described["ring_ended"]:
        yield source, "its file ended before the process did", 1.0


def _write(ring: Artefact, log: _native.StreamedLog, facts: dict[str, Any], how: str) -> Path:
    described = log.describe()
    spool = ring.folder / f"{SPOOL_PREFIX}{ring.process}-{ring.owner}-{ring.number}"
    remove_inside(ring.folder, spool.name)  # left by a recovery that was killed
    with locked_folder(spool, 0o700):
        try:
            reason = Reason("death", _short_text(how), described["stopped_ns"])
            facts["ledger"] += [list(row) for row in _lost(described)]
            if described["gaps"] or described["ring_ended"]:
                facts["limited_by"] = _INCOMPLETE
            reason_text = reason.as_json(_ended(how, described))
            (spool / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
            (spool / "reason.json").write_text(reason_text, encoding="utf-8")
            places = "".join(json.loads(note).get(PLACES_NOTE, "") for note in log.notes)
            (spool / PLACES).write_text(places, encoding="utf-8")
            with open(spool / "log", "xb") as file:
                if error := log.write_copy(file.fileno()):
                    raise OSError(error, os.strerror(error))
            return write_dump(spool)
        finally:
            remove_inside(ring.folder, spool.name)


def _ended(how: str, described: _native.StreamDescription) -> dict[str, Any]:
    gaps = described["gaps"]
    return {
        "how": how,
        "whole": False,
        "dropped_from_ns": gaps[0][0] if gaps else None,
        "dropped_until_ns": gaps[-1][1] if gaps else None,
        "gaps": gaps,
    }


def _short_text(how: str) -> str:
    """``killed by SIGKILL``, from a keeper's text."""
    short = how.removesuffix(NOT_WRITTEN).strip()
    return short.removeprefix("its process ").removeprefix("was ")


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
