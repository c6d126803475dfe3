"""The process that makes traces of dumps: one for a folder, which takes them in turn.

Each is made in a child of its own: what is imported is there already, memory that one took is given
back, and one that cannot be made does not keep the others from it.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import socket
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from opscope.base.artefacts import InUseError, LeftKind, at, claimed, find, is_free, remove
from opscope.base.files import open_inside, read_inside
from opscope.base.locks import NoLocksError
from opscope.live.flight.write_dump import write_dump

KIND, TAKEN = "writer", "process"
"""In a spool: which process makes a trace of it, and that one has begun to."""
_MOST_KIND_BYTES = 1000
_NICE = 10
_IMPORTED_ONCE = "opscope.storage.store", "opscope.storage.parquet", "numpy.ma"
"""What is imported where a trace is saved; to import it takes longer than to make a short trace."""


def main(own: socket.socket, folder: str, kind: str) -> None:
    """Make traces of all dumps of a kind, until there are no more."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    with contextlib.suppress(ImportError):  # once, and not in every child
        for module in _IMPORTED_ONCE:
            importlib.import_module(module)
    seen: set[Path] = set()
    while spools := [spool for spool in _waiting(Path(folder), kind) if spool not in seen]:
        seen.update(spools)
        for spool in spools:
            _write_in_child(spool)
    own.close()
    # A process that came in the meantime has seen this one, and relies on it.
    left = [spool for spool in _waiting(Path(folder), kind) if spool not in seen]
    if left:
        os.execv(sys.orig_argv[0], [*sys.orig_argv[:-1], str(left[0])])


def _waiting(folder: Path, kind: str) -> list[Path]:
    """Dumps of a kind that are complete and not taken yet, oldest first."""
    with contextlib.suppress(OSError):
        spools = [one.path for one in find(folder, LeftKind.SPOOL)]
        return [one for one in spools if kind_of(one) == kind and not is_taken(one)]
    return []


def kind_of(spool: Path) -> str:
    """Which process makes a trace of it; empty until all of it is there."""
    with contextlib.suppress(OSError):
        return read_inside(spool.parent, f"{spool.name}/{KIND}", _MOST_KIND_BYTES).decode()
    return ""


def is_taken(spool: Path) -> bool:
    """Whether the process that makes traces has come to it, or it is gone."""
    return os.path.lexists(spool / TAKEN) or not spool.exists()


def is_left(spool: Path) -> bool:
    """Whether the process that took it has ended without making a trace of it."""
    one = at(spool)
    return one is not None and os.path.lexists(spool / TAKEN) and is_free(one)


def take(spool: Path) -> bool:
    """Note that this process makes the trace of one; False if another did, or it is there."""
    place = spool / TAKEN
    try:
        with open(place, "x", encoding="ascii") as file:
            file.write(str(os.getpid()))
    except (FileExistsError, FileNotFoundError):
        return False
    except OSError:
        place.unlink(missing_ok=True)
        raise
    return True


def finish_dump(spool: Path) -> Path | None:
    """Make the trace of one, in turn with other processes that make some; None if another has.

    Raises:
        OpscopeError: it cannot be written, or a process is at it.
        OSError, ValueError: what was left cannot be read.
    """
    # Recording takes NumPy alone, which this does not.
    from opscope.recording.claims import ours
    from opscope.recording.unfinished_recording import left_to_be_recovered

    one, folder = at(spool), spool.parent
    assert one is not None, f"{spool} is no name of a dump"
    with turn_of(folder), ours(one) as is_there, left_to_be_recovered(spool.name, folder):
        if not is_there:
            return None
        if not kind_of(spool):
            remove(one)
            raise ValueError("its program was killed as it began to write it; it was removed")
        take(spool)
        return write_dump(spool)


@contextlib.contextmanager
def turn_of(folder: Path) -> Iterator[None]:
    """One process at a time makes traces of what is in a folder: processors are the program's."""
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # some file systems have no locks for folders
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _write_in_child(spool: Path) -> None:
    """Make a trace of one, unless another process does."""
    try:
        child = os.fork()
    except OSError:
        return
    if child:
        os.waitpid(child, 0)
        return
    status = 1
    try:
        _write(spool)
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _write(spool: Path) -> None:
    one = at(spool)
    assert one is not None, f"{spool} is no name of a dump"
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(claimed(one))
        except NoLocksError:  # then the note alone says whose it is
            pass
        except InUseError:
            return
        if take(spool):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            output = open_inside(spool.parent, f"{spool.name}/output", flags)
            os.dup2(output, 1)
            os.dup2(output, 2)
            held.enter_context(turn_of(spool.parent))
            write_dump(spool)
