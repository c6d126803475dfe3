"""Rings whose process is gone: what it held when it was killed becomes a dump."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opscope import _native
from opscope.errors import LifecycleError, TraceFormatError
from opscope.flight.dump_writer import KIND
from opscope.flight.left_dumps import turn_of
from opscope.flight.limits import SPOOL_PREFIX, disk_bytes
from opscope.flight.reason import Reason
from opscope.flight.ring_file import PLACES_NOTE, remove_ring
from opscope.flight.write_dump import PLACES, write_dump
from opscope.launch.keeper_process import BECAME_ANOTHER, NOT_WRITTEN, RING_PREFIX
from opscope.recording.recovered import HOW_UNKNOWN, is_running, left_to_be_recovered
from opscope.running_process import is_there
from opscope.trace.left_files import COUNT, reading, said

_FACTS = {"max_disk_bytes": COUNT, "ledger": list}
_SHORT = "its file had no room, or another recording had it: what came last is not there"
_WELL = frozenset({BECAME_ANOTHER, f"its process exited with code 0 {NOT_WRITTEN}"})
"""Ends that programs choose, and that are no reason for a dump."""


def left_rings(folder: Path, process: int | None = None) -> list[Path]:
    """Names of rings in ``folder``, of one process or of all, oldest first."""
    which = "*" if process is None else process
    found = folder.glob(f"{RING_PREFIX}{which}-*")
    return sorted(found, key=lambda name: name.lstat().st_mtime_ns)


def dump_ring(name: Path, how: str = "") -> Path | None:
    """Make a dump of what a process held when it ended, and remove the ring.

    Args:
        name: of the ring, in the folder of the dumps.
        how: what became of the process, where that is known.

    Returns:
        The trace; None where there is nothing to make one of: the process ended well, somebody
        else has made it, or nothing was recorded yet.

    Raises:
        LifecycleError: its process is still there.
        OpscopeError: it cannot be written, or dumps fill what they may; then the ring stays.
        OSError: it cannot be read.
    """
    beside = left_to_be_recovered(name.name, name.parent)
    with turn_of(name.parent), beside, reading(name):
        log = _read(name)
        if log is None:
            return None
        described = log.describe()
        if is_running(described):
            process = described["process_id"]
            raise LifecycleError(
                f"{name} is the ring of process {process}, which still runs. Ask that for a dump, "
                f"by `opscope dump {process}` where it listens or by the signal that its flight "
                "recorder waits for. If it dies, the dump is made by itself."
            )
        if how in _WELL or not log.about:
            remove_ring(name)
            return None
        facts = said(log.about, _FACTS)
        _refuse_if_full(name, facts)
        saved = _write(name, log, facts, how or HOW_UNKNOWN)
        remove_ring(name)
        _remove_begun_dumps(name.parent, described["process_id"])
        return saved


def _read(name: Path) -> _native.StreamedLog | None:
    try:
        return _native.read_stream(os.fspath(name))
    except FileNotFoundError:  # it has gone meanwhile, or was not there yet when its process went
        remove_ring(name)
    except _native.NothingRecordedError:
        if not is_there(int(name.name.removeprefix(RING_PREFIX).split("-")[0])):
            remove_ring(name)
    return None


def _refuse_if_full(name: Path, facts: dict[str, Any]) -> None:
    used, most = disk_bytes(name.parent), facts["max_disk_bytes"]
    if used >= most:
        raise TraceFormatError(
            f"No dump was made of {name}: dumps fill {used >> 20:,} MiB, the limit is "
            f"{most >> 20:,} MiB. Remove some, then run `opscope recover {name.parent}`."
        )


def _remove_begun_dumps(folder: Path, process: int) -> None:
    """Those that it had just begun to write when it ended: there is nothing they could become."""
    for spool in folder.glob(f"{SPOOL_PREFIX}{process}-*"):
        if not (spool / KIND).exists():
            shutil.rmtree(spool, ignore_errors=True)


def _lost(described: _native.StreamDescription) -> Iterator[tuple[str, str, float]]:
    source = "flight recorder"
    if described["gaps"]:
        blocks = sum(lost for _, _, lost in described["gaps"])
        yield source, "dropped: blocks of up to 1,364 events, no room in its file", float(blocks)
    if described["ring_ended"]:
        yield source, "its file ended before the process did", 1.0


def _write(name: Path, log: _native.StreamedLog, facts: dict[str, Any], how: str) -> Path:
    described = log.describe()
    number = name.name.rpartition("-")[2]
    spool = name.with_name(f"{SPOOL_PREFIX}{described['process_id']}-{number}")
    shutil.rmtree(spool, ignore_errors=True)  # of whoever was killed while it made this
    spool.mkdir(mode=0o700)
    try:
        reason = Reason("death", _in_short(how), described["stopped_ns"])
        facts["ledger"] += [list(row) for row in _lost(described)]
        if described["gaps"] or described["ring_ended"]:
            facts["limited_by"] = _SHORT
        (spool / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
        (spool / "reason.json").write_text(reason.said(_ended(how, described)), encoding="utf-8")
        places = "".join(json.loads(note).get(PLACES_NOTE, "") for note in log.notes)
        (spool / PLACES).write_text(places, encoding="utf-8")
        with open(spool / "log", "xb") as file:
            if error := log.write_copy(file.fileno()):
                raise OSError(error, os.strerror(error))
        return write_dump(spool)
    except BaseException:
        shutil.rmtree(spool, ignore_errors=True)
        raise


def _ended(how: str, described: _native.StreamDescription) -> dict[str, Any]:
    gaps = described["gaps"]
    return {
        "how": how,
        "whole": False,
        "dropped_from_ns": gaps[0][0] if gaps else None,
        "dropped_until_ns": gaps[-1][1] if gaps else None,
        "gaps": gaps,
    }


def _in_short(how: str) -> str:
    """``killed by SIGKILL`` for what a keeper says."""
    short = how.removesuffix(NOT_WRITTEN).strip()
    return short.removeprefix("its process ").removeprefix("was ")
