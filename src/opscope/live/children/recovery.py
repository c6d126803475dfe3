"""Traces of the processes of a job that have ended, from the recordings that they left."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from opscope.base.artefacts import Artefact, LeftKind, below, claimed, owner, remove
from opscope.errors import LifecycleError, OpscopeError
from opscope.live.flight.recovery import rescue
from opscope.recording.recovered import NothingRecorded, part_of_recording
from opscope.storage.processes import read_journal
from opscope.storage.store import remove_begun

_HOW = {"killed": "its process was {}", "exited": "its process {}", "became": "its process {}"}


def recover_ended(folder: Path) -> list[OpscopeError]:
    """Make traces of the recordings in ``folder``, and in its cycles, whose processes are gone.

    What went wrong is returned.

    Several processes may do so at the same time: each recording is one's.
    """
    remove_begun(folder)
    failures: list[OpscopeError] = []
    for one in reversed(list(below(folder, LeftKind.STREAM))):
        if one.owner == owner():
            continue
        try:
            how = _how_it_ended(folder, one.path)
            rescue(one, how, wait=True)
        except LifecycleError:  # it is still being recorded
            pass
        except NothingRecorded:
            _remove_nothing(one)
        except OpscopeError as error:
            if one.path.exists():  # its trace was not written meanwhile
                failures.append(error)
    return failures


def _remove_nothing(one: Artefact) -> None:
    """The list of processes says of this one that there is nothing of it."""
    with suppress(OSError), claimed(one) as is_there:
        if is_there:
            remove(one)


def _how_it_ended(folder: Path, path: Path) -> str:
    part = part_of_recording(path)
    ended = [entry.ended for entry in read_journal(folder) if entry.partition == part]
    return _HOW.get(ended[-1].partition(" ")[0], "{}").format(ended[-1]) if any(ended) else ""
