"""Makes traces of dumps whose writer process has died; one process of a folder works at a time."""

from __future__ import annotations

from pathlib import Path

from opscope.base.artefacts import at, remove
from opscope.base.locks import turn_of
from opscope.live.flight.dump_request import is_complete
from opscope.live.flight.write_dump import write_dump
from opscope.recording.claims import ours
from opscope.recording.recovered import left_to_be_recovered


def finish_dump(spool: Path) -> Path | None:
    """Make the trace of a dump; None if another process has made it.

    Raises:
        OpscopeError: the trace cannot be written, or another process writes it.
        OSError, ValueError: the spool cannot be read.
    """
    artefact, folder = at(spool), spool.parent
    assert artefact is not None, f"{spool} is not the name of a dump"
    with turn_of(folder), ours(artefact) as exists, left_to_be_recovered(spool.name, folder):
        if not exists:
            return None
        if not is_complete(spool):
            remove(artefact)
            raise ValueError("the program was killed before the dump was complete; it was removed")
        return write_dump(spool)
