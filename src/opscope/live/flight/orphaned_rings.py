"""Writes dumps from rings of killed processes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opscope import _native
from opscope.base.artefacts import (
    NOTE,
    Artefact,
    LeftKind,
    at,
    find,
    in_memory,
    locked_folder,
    remove,
)
from opscope.base.files import remove_inside
from opscope.base.untrusted_files import COUNT, Shape, parsed_json, reading
from opscope.errors import TraceFormatError
from opscope.launch.keeper_process import BECAME_ANOTHER, NOT_WRITTEN
from opscope.live.flight.dump_request import SPOOL_PREFIX, Reason, disk_bytes, is_complete
from opscope.live.flight.dump_writer import turn_of
from opscope.live.flight.ring import PLACES_NOTE
from opscope.live.flight.write_dump import PLACES, write_dump
from opscope.recording.claims import ours
from opscope.recording.recovered import HOW_UNKNOWN, left_to_be_recovered

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
    ring = at(name)
    assert ring is not None, f"{name} is not the name of a ring"
    marker = left_to_be_recovered(ring.name, ring.folder)
    with turn_of(ring.folder), ours(ring) as exists, marker, reading(name):
        saved = _dump_claimed(ring, how) if exists else None
        remove(ring)
        _remove_begun_dumps(ring)
    return saved


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
