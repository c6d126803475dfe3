"""The keeper: waits for the end of another process, and finishes its trace if that could not.

Run by its path, and until there is something to do it imports no more than this: it should cost
next to nothing while the program runs.
"""

import contextlib
import os
import re
import select
import signal
import stat
import struct
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from opscope.launch.process_end import FLAGS, fields_of, how_it_ended
else:  # run by its path: importing the package would import all that recording needs
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from process_end import FLAGS, fields_of, how_it_ended

_NICENESS = 10
"""Of what goes on beside the program."""
_EXITING = 4
"""Of a process's flags."""

BECAME_ANOTHER = "its process became another program (exec)"
NOT_WRITTEN = "before it could be written (os._exit or exec)"
RING_PREFIX = ".ring-"
"""What the files of rings of flight recorders begin with."""
IN_MEMORY = "/dev/shm"

_BETWEEN_LOOKS_MS = 250
_DRAIN_FROM_AT = 152
"""Where its file says from which size on it is to be drained; native/log/stream_layout.h."""
_MOST_DRAINERS = 4
"""One after the other, each of which was killed."""
NO_ROOM = 75
"""With this exit code one ends where the disk is full; another is begun when it is no more."""
NO_PROCESS = 76
"""With this one the keeper itself ends, where there can be no process that outlives it."""
_ROOM_BYTES = 64 << 20
_BETWEEN_TRIES_S = 5.0
"""A file may be refused for other reasons than that nothing is left: a quota, say."""

_DRAIN = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from opscope.cli.keeper import drain; drain(*sys.argv[2:])"
)
_THEN = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from opscope.cli.keeper import finish; finish(*sys.argv[2:])"
)
_END_OF_RUN = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from opscope.cli.keeper import end_of_run; end_of_run(*sys.argv[2:])"
)
DONE = b"."
"""What the process then says that has made it."""
ASKED = "asked"
"""How a wait ended in which the program said what it wants made of its recording now."""


def main(program: int, pipe: int, folder: str, package: str) -> None:
    """Wait for ``program``; then, if it left something unfinished, become what finishes that.

    Args:
        program: process id.
        pipe: a socket; the program has its other end open for as long as it is there.
        folder: of the trace.
        package: where opscope can be imported from.
    """
    try:
        child = os.fork()  # so that the program has no child that it does not know of
    except OSError:  # the user may have no more processes
        os._exit(NO_PROCESS)
    if child:
        os._exit(0)
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir("/")
    os.environ.pop("OPSCOPE_CHILDREN", None)  # this is no process of the program's
    how = wait_for(program, pipe, folder, package)
    if how == ASKED:
        end_run(program, pipe, folder, package)
    os.close(pipe)
    if is_unfinished(program, folder):
        found = [package, folder, str(program), how]
        os.execv(sys.executable, [sys.executable, "-c", _THEN, *found])
    remove_lost_rings(program, folder)


def end_run(program: int, pipe: int, folder: str, package: str) -> None:
    """Become what does that; it reads the rest from ``pipe``, and says there when all is done."""
    os.set_inheritable(pipe, True)
    found = [package, str(pipe), folder, str(program)]
    os.execv(sys.executable, [sys.executable, "-I", "-c", _END_OF_RUN, *found])


def is_asked(pipe: int) -> bool:
    """Whether the program has said something; else it has closed its end."""
    try:
        return bool(os.read(pipe, 1))
    except OSError:  # it ended before it read what was said to it
        return False


def wait_for(program: int, pipe: int, folder: str, package: str) -> str:
    """Wait until it has ended, is another program, or says something; how it ended, or ASKED.

    Meanwhile, a recording that becomes long is drained by a process of its own.
    """
    try:
        process = os.pidfd_open(program)
    except OSError:  # it has ended already, or the system is old
        select.select([pipe], [], [])
        return ASKED if is_asked(pipe) else ""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.register(pipe, select.POLLIN)
    drainers = Drainers(program, process, folder, package)
    while process not in (ended := [file for file, _ in poll.poll(_BETWEEN_LOOKS_MS)]):
        let_go_of_error(program)
        drainers.look()
        if not ended:
            continue
        if is_asked(pipe):
            return ASKED
        if _is_ending(program):
            break
        # Only the pipe has ended.
        if not is_recording(program):
            return BECAME_ANOTHER
        poll.unregister(pipe)  # the program has closed what it does not know
    select.select([process], [], [])
    drainers.wait()
    return end_of(program, process)


def let_go_of_error(program: int) -> None:
    """Close standard error if it is a pipe that the program has closed: who reads it waits.

    While the program has it, this has it too, to say at the program's end what became of it.
    """
    own = os.fstat(2)
    if not (stat.S_ISFIFO(own.st_mode) or stat.S_ISSOCK(own.st_mode)):
        return
    with contextlib.suppress(OSError):
        files = f"/proc/{program}/fd"
        there = {_identity_of(f"{files}/{file}") for file in os.listdir(files)}
        # A process that is about to be gone has no files at all, maybe since these were looked at.
        if (own.st_dev, own.st_ino) not in there and os.listdir(files):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _identity_of(file: str) -> "tuple[int, int] | None":
    with contextlib.suppress(OSError):  # closed meanwhile
        found = os.stat(file)
        return found.st_dev, found.st_ino
    return None


class Drainers:
    """The processes that drain what ``program`` records into ``folder``."""

    def __init__(self, program: int, process: int, folder: str, package: str) -> None:
        """``process``: a file that can be read once the program has ended."""
        self._program, self._folder = program, folder
        self._command = [sys.executable, "-c", _DRAIN, package, str(program), str(process)]
        self._running: dict[int, str] = {}
        self._begun: dict[str, int] = {}
        self._full_until_s: dict[str, float] = {}
        os.set_inheritable(process, True)

    def look(self) -> None:
        """Begin one for each recording that has become long."""
        self._reap()
        with contextlib.suppress(OSError):
            for file in recordings_of(self._program, self._folder):
                is_known = file in self._running.values()
                if not is_known and self._may_begin(file) and _is_long(file):
                    self._begun[file] = self._begun.get(file, 0) + 1
                    self._running[self._begin(file)] = file

    def _may_begin(self, file: str) -> bool:
        if file in self._full_until_s:
            if time.monotonic() < self._full_until_s[file] or not _has_room(self._folder):
                return False
            del self._full_until_s[file]
        return self._begun.get(file, 0) < _MOST_DRAINERS

    def _reap(self) -> None:
        for process in list(self._running):
            with contextlib.suppress(ChildProcessError):
                ended, status = os.waitpid(process, os.WNOHANG)
                if not ended:
                    continue
                file, code = self._running.pop(process), os.waitstatus_to_exitcode(status)
                if code == 0:  # it has found that there is nothing to do
                    self._begun[file] = _MOST_DRAINERS
                elif code == NO_ROOM:
                    self._begun[file] = 0
                    self._full_until_s[file] = time.monotonic() + _BETWEEN_TRIES_S

    def _begin(self, file: str) -> int:
        # Whoever reads the program's error stream waits for all that have it: see let_go_of_error.
        silent = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
        command = [*self._command, file]
        drainer = os.posix_spawn(sys.executable, command, os.environ, file_actions=silent)
        with contextlib.suppress(OSError):  # it has ended already
            os.setpriority(os.PRIO_PROCESS, drainer, _NICENESS)
        return drainer

    def wait(self) -> None:
        """Until all have ended, which they do once the program has."""
        for process in self._running:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, 0)


def _has_room(folder: str) -> bool:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize >= _ROOM_BYTES


def _is_long(file: str) -> bool:
    with open(file, "rb") as recording:
        recording.seek(_DRAIN_FROM_AT)
        found = recording.read(8)
        return len(found) == 8 and os.stat(file).st_size >= struct.unpack("Q", found)[0] > 0


def _is_ending(program: int) -> bool:
    """Whether it is about to be gone: its files are closed before it can be waited for."""
    try:
        return bool(int(fields_of(program)[FLAGS]) & _EXITING)
    except (OSError, ValueError, IndexError):
        return True


def is_recording(program: int) -> bool:
    """Whether it still has a file of a recording in its memory."""
    try:
        with open(f"/proc/{program}/maps", errors="replace") as maps:
            return has_recording(maps, program)
    except OSError:
        return False


def has_recording(maps: "Iterable[str]", program: int) -> bool:
    """Whether one is among what ``program`` has mapped."""
    # A ring that was stopped is mapped for as long as a thread has a block of it.
    return any(
        f"/.recording-{program}-" in line
        or (f"/{RING_PREFIX}{program}-" in line and not line.rstrip().endswith("(deleted)"))
        for line in maps
    )


def in_memory_name(name: str, folder: str) -> str:
    """What the file of a ring begins with whose name in ``folder`` is ``name``."""
    return f"{name}-{zlib.crc32(folder.encode(errors='surrogateescape')):08x}-"


def remove_lost_rings(program: int, folder: str) -> None:
    """Where their names are gone, as the folder is."""
    ours = re.compile(rf"{re.escape(RING_PREFIX)}{program}-\d+")
    with contextlib.suppress(OSError):
        for file in os.listdir(IN_MEMORY):
            name = ours.match(file)
            if name and file.startswith(in_memory_name(name[0], folder)):
                os.unlink(os.path.join(IN_MEMORY, file))


def is_unfinished(program: int, folder: str) -> bool:
    """Whether it left a recording there, or in one of its cycles."""
    with contextlib.suppress(OSError):
        rings = any(x.startswith(f"{RING_PREFIX}{program}-") for x in os.listdir(folder))
        return rings or any(True for _ in recordings_of(program, folder))
    return False


def recordings_of(program: int, folder: str) -> "Iterator[str]":
    """Files of recordings of its own in a folder and in its cycles."""
    ours = re.compile(rf"\.recording-{program}-\d+\.opscope")
    for entry in os.scandir(folder):
        if ours.fullmatch(entry.name):
            yield entry.path
        elif entry.name.startswith("cycle-") and entry.is_dir():
            yield from (
                os.path.join(entry.path, x) for x in os.listdir(entry.path) if ours.fullmatch(x)
            )


def end_of(program: int, process: int) -> str:
    """What became of a process; empty where that cannot be told."""
    how = how_it_ended(program, process)
    if how.startswith("killed"):
        return f"its process was {how}"
    return how and f"its process {how} {NOT_WRITTEN}"


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
