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
from pathlib import Path

from opscope.flight.limits import SPOOL_PREFIX
from opscope.flight.write_dump import write_dump

KIND, TAKEN = "writer", "process"
"""In a spool: which process makes a trace of it, and who does so now."""
_NICE = 10
_IMPORTED_ONCE = "opscope.trace.store", "opscope.trace.save_apart", "numpy.ma"
"""What is imported where a trace is saved; to import it takes longer than to make a short trace."""


def main(own: socket.socket, folder: str, kind: str) -> None:
    """Make traces of all dumps of a kind, until there are no more.

    Args:
        own: of the name that says that this process is there.
        folder: of the dumps.
        kind: which of them; that name.
    """
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
    # Whoever came in the meantime has seen this process, and relies on being seen.
    left = [spool for spool in _waiting(Path(folder), kind) if spool not in seen]
    if left:
        os.execv(sys.orig_argv[0], [*sys.orig_argv[:-1], str(left[0])])


def _waiting(folder: Path, kind: str) -> list[Path]:
    """Dumps of a kind that are complete and that nobody has taken yet, oldest first."""
    found = []
    with contextlib.suppress(OSError):
        for spool in folder.glob(SPOOL_PREFIX + "*"):
            with contextlib.suppress(OSError):
                is_free = not (spool / TAKEN).exists()
                if is_free and (spool / KIND).read_text() == kind:
                    found.append(((spool / KIND).stat().st_mtime_ns, spool))
    return [spool for _, spool in sorted(found)]


def take(spool: Path) -> bool:
    """Have one be this process's; False if it is another's, or its trace is there.

    Raises:
        OSError: there is no room to say so; then it is nobody's.
    """
    place = spool / TAKEN
    try:
        with open(place, "x", encoding="ascii") as file:
            file.write(_own_id())
    except (FileExistsError, FileNotFoundError):
        return False
    except OSError:
        place.unlink(missing_ok=True)
        raise
    return True


def take_over(spool: Path) -> None:
    """Have one that is taken be this process's, with no more room than there is already.

    Raises:
        OSError: it is gone.
    """
    with open(spool / TAKEN, "r+", encoding="ascii") as file:
        file.write(_own_id())


def _own_id() -> str:
    return f"{os.getpid():10}"  # as long whoever it is


def _write_in_child(spool: Path) -> None:
    """Make a trace of one, unless somebody else does."""
    try:
        if not take(spool):
            return
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
    take_over(spool)
    output = os.open(spool / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    # One of any kind at a time: the processors are the program's.
    with contextlib.suppress(OSError):
        fcntl.flock(os.open(spool.parent, os.O_RDONLY), fcntl.LOCK_EX)
    write_dump(spool)
