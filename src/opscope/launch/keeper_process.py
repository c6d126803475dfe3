"""The keeper: waits for the end of other processes, and has traces made of what they left.

``program`` watches one that streams, and finishes its trace if that could not; ``job`` watches all
processes of a folder, see ``job_keeper``. Run by its path, and until there is something to do it
imports no more than this: it should cost next to nothing while the program runs.
"""

import contextlib
import importlib
import os
import select
import stat
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from opscope.base.artefacts import IN_MEMORY, LeftKind, below
    from opscope.launch.process_end import FLAGS, NICENESS, Helpers, detach, fields_of, how_it_ended
else:  # run by its path: importing the package would import all that recording needs
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path += [_here, os.path.join(os.path.dirname(_here), "base")]
    from artefacts import IN_MEMORY, LeftKind, below
    from process_end import FLAGS, NICENESS, Helpers, detach, fields_of, how_it_ended

_EXITING = 4
"""Of a process's flags."""

BECAME_ANOTHER = "its process became another program (exec)"
NOT_WRITTEN = "before it could be written (os._exit or exec)"

_BETWEEN_LOOKS_MS = 250
_DRAIN_FROM_AT = 104
"""Where its file says from which size on it is to be drained; native/log/stream_layout.h."""
_MOST_DRAINERS = 4
"""One after the other, each of which was killed."""
NO_ROOM = 75
"""With this exit code one ends where the disk is full; another is begun when it is no more."""
_ROOM_BYTES = 64 << 20
_BETWEEN_TRIES_S = 5.0
"""A file may be refused for other reasons than that nothing is left: a quota, say."""

DONE = b"."
"""What the process sends to the program once it has made the trace."""
BESIDE, AT_END = b"&", b"?"
"""What a request begins with: the program goes on meanwhile, and needs the processors; or not."""
ASKED = "asked"
"""How a wait ended in which the program sent what it wants made of its recording now."""


def keep_program(program: int, pipe: int, folder: str, owner: str, command: "list[str]") -> None:
    """Wait for ``program``; then, if it left something unfinished, become what finishes that.

    Args:
        program: process id.
        pipe: a socket; the program has its other end open for as long as it is there.
        folder: of the trace.
        owner: what the names of all that the program leaves have in common.
        command: what runs ``opscope.cli.session.keeper``; see ``base/python_process.py``.
    """
    how = wait_for(program, pipe, folder, owner, command)
    if how == ASKED:  # what this becomes reads the rest from ``pipe``
        os.set_inheritable(pipe, True)
        os.execv(command[0], [*command, "end_of_run", str(pipe), folder, owner])
    os.close(pipe)
    if is_unfinished(owner, folder):
        os.execv(command[0], [*command, "finish", folder, owner, how])
    remove_lost_rings(owner, folder)


def has_request(pipe: int) -> bool:
    """Whether the program has sent something; else it has closed its end."""
    try:
        sent = os.read(pipe, 1)
    except OSError:  # it ended before it read what was sent to it
        return False
    if sent == BESIDE:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    return bool(sent)


def wait_for(program: int, pipe: int, folder: str, owner: str, command: "list[str]") -> str:
    """Wait until it has ended, is another program, or sends something; how it ended, or ASKED.

    Meanwhile, a recording that becomes long is drained by a process of its own.
    """
    try:
        process = os.pidfd_open(program)
    except OSError:  # it has ended already, or the system is old
        select.select([pipe], [], [])
        return ASKED if has_request(pipe) else ""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.register(pipe, select.POLLIN)
    drainers = Drainers(owner, process, folder, command)
    while True:
        ended = [file for file, _ in poll.poll(_BETWEEN_LOOKS_MS)]
        if pipe in ended and has_request(pipe):  # maybe by its last action: it may have ended, too
            return ASKED
        if process in ended:
            break
        let_go_of_error(program)
        drainers.look()
        if not ended:
            continue
        if _is_ending(program):
            break
        # Only the pipe has ended.
        if not is_recording(program, owner):
            return BECAME_ANOTHER
        poll.unregister(pipe)  # the program has closed what it does not know
    select.select([process], [], [])
    drainers.wait()
    how = how_it_ended(program, process)
    if how.startswith("killed"):
        return f"its process was {how}"
    return how and f"its process {how} {NOT_WRITTEN}"


def let_go_of_error(program: int) -> None:
    """Close standard error if it is a pipe that the program has closed: who reads it waits.

    While the program has it, this has it too, to print at its end what became of it.
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
    """The processes that drain what the program records into ``folder``."""

    def __init__(self, owner: str, process: int, folder: str, command: "list[str]") -> None:
        """``process``: a file that can be read once the program has ended."""
        self._owner, self._folder, self._process = owner, folder, process
        self._helpers = Helpers(command)
        self._begun: dict[str, int] = {}
        self._full_until_s: dict[str, float] = {}
        os.set_inheritable(process, True)

    def look(self) -> None:
        """Begin one for each recording that has become long."""
        for file, code in self._helpers.ended():
            if code == 0:  # it has found that there is nothing to do
                self._begun[file] = _MOST_DRAINERS
            elif code == NO_ROOM:
                self._begun[file] = 0
                self._full_until_s[file] = time.monotonic() + _BETWEEN_TRIES_S
        with contextlib.suppress(OSError):
            for file in recordings_of(self._owner, self._folder):
                is_known = self._helpers.is_running(file)
                if not is_known and self._may_begin(file) and _is_long(file):
                    self._begun[file] = self._begun.get(file, 0) + 1
                    self._helpers.begin("drain", str(self._process), file)

    def _may_begin(self, file: str) -> bool:
        if file in self._full_until_s:
            if time.monotonic() < self._full_until_s[file] or not _has_room(self._folder):
                return False
            del self._full_until_s[file]
        return self._begun.get(file, 0) < _MOST_DRAINERS

    def wait(self) -> None:
        """Until all have ended, which they do once the program has."""
        self._helpers.wait()


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


def is_recording(program: int, owner: str) -> bool:
    """Whether it still has a file of its own recordings in its memory."""
    # A ring that was stopped is mapped for as long as a thread has a block of it.
    with contextlib.suppress(OSError), open(f"/proc/{program}/maps", errors="replace") as maps:
        return any(f"-{owner}-" in line and "(deleted)" not in line for line in maps)
    return False


def in_memory_name(name: str, folder: str) -> str:
    """What the file of a ring is called there whose name in ``folder`` is ``name``."""
    return f"{name}-{zlib.crc32(folder.encode(errors='surrogateescape')):08x}"


def remove_lost_rings(owner: str, folder: str) -> None:
    """Where their notes are gone, as the folder is."""
    with contextlib.suppress(OSError):
        for file in os.listdir(IN_MEMORY):
            if f"-{owner}-" in file and file.endswith(in_memory_name("", folder)):
                os.unlink(os.path.join(IN_MEMORY, file))


def is_unfinished(owner: str, folder: str) -> bool:
    """Whether a process left a recording there, or in one of its cycles."""
    return any(True for _ in below(folder, LeftKind.STREAM, LeftKind.RING, owned_by=owner))


def recordings_of(owner: str, folder: str) -> "Iterator[str]":
    """Files of recordings of a process in a folder and in its cycles."""
    return (str(one.path) for one in below(folder, LeftKind.STREAM, owned_by=owner))


if __name__ == "__main__":
    detach()
    root, what, *words = sys.argv[1:]
    if what == "job":
        importlib.import_module("job_keeper").JobKeeper(
            int(root), words[0], Helpers(words[1:])
        ).keep()
    else:
        keep_program(int(root), int(words[0]), words[1], words[2], words[3:])
