"""The keeper: waits until other processes end, and makes traces of unfinished recordings.

``program`` watches a process that streams, and finishes its trace if the process could not; ``job``
watches all processes of a folder, see ``job_keeper``. Run by its path, and imports nothing else
until there is work: it costs almost nothing while the program runs.
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
    from process_end import FLAGS, NICENESS, Helpers, detach, fields_of, how_it_ended

    if __name__ == "__main__":
        detach()  # before the slow imports: the program waits until its child has ended
    from artefacts import IN_MEMORY, LeftKind, below

_EXITING = 4
"""Bit of a process's flags."""

BECAME_ANOTHER = "its process became another program (exec)"
NOT_WRITTEN = "before it could be written (os._exit or exec)"

_POLL_INTERVAL_MS = 250
_DRAIN_FROM_AT = 104
"""Offset of a stream's field "drain from this size on"; see native/log/stream_layout.h."""
_MOST_ATTEMPTS = 4
"""Most attempts for one file, if drainers are killed."""
NO_ROOM = 75
"""Exit code of a drainer that found the disk full; another one starts when there is space."""
_LEAST_ROOM_BYTES = 64 << 20
_RETRY_DELAY_S = 5.0
"""Delay after a full disk: other limits, such as a quota, may refuse a file too."""

DONE = b"."
"""Sent to the program once the trace is made."""
BESIDE, AT_END = b"&", b"?"
"""First byte of a request: the program continues and needs the CPUs, or it ends."""
REQUEST = "request"
"""Result of :func:`wait_for` if the program sent a request."""


def keep_program(program: int, pipe: int, folder: str, owner: str, command: "list[str]") -> None:
    """Wait for ``program`` to end; then, by exec, finish its unfinished recordings.

    Args:
        program: process id.
        pipe: a socket; the program has its other end open while it runs.
        folder: folder of the trace.
        owner: common part of the names of the program's files.
        command: command that runs ``opscope.cli.session.keeper``; see ``base/python_process.py``.
    """
    how = wait_for(program, pipe, folder, owner, command)
    if how == REQUEST:  # the next program reads the rest from ``pipe``
        os.set_inheritable(pipe, True)
        os.execv(command[0], [*command, "end_of_run", str(pipe), folder, owner])
    os.close(pipe)
    if is_unfinished(owner, folder):
        os.execv(command[0], [*command, "finish", folder, owner, how])
    remove_lost_rings(owner, folder)


def has_request(pipe: int) -> bool:
    """Whether the program has sent a request; else it has closed its end."""
    try:
        first_byte = os.read(pipe, 1)
    except OSError:  # it ended before reading its input
        return False
    if first_byte == BESIDE:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    return bool(first_byte)


def wait_for(program: int, pipe: int, folder: str, owner: str, command: "list[str]") -> str:
    """Wait until the program ends, calls exec or sends a request; returns how it ended, or REQUEST.

    Until then, a separate process drains each recording that becomes long.
    """
    try:
        process = os.pidfd_open(program)
    except OSError:  # it has already ended, or the system is old
        select.select([pipe], [], [])
        return REQUEST if has_request(pipe) else ""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.register(pipe, select.POLLIN)
    drainers = Drainers(owner, process, folder, command)
    while True:
        ready = [file for file, _ in poll.poll(_POLL_INTERVAL_MS)]
        if pipe in ready and has_request(pipe):  # first: the program may have ended after it
            return REQUEST
        if process in ready:
            break
        close_unread_stderr(program)
        drainers.look()
        if not ready:
            continue
        if _is_ending(program):
            break
        # The pipe is closed, and the process exists.
        if not is_recording(program, owner):
            return BECAME_ANOTHER
        poll.unregister(pipe)  # the program closed all files that it did not open
    select.select([process], [], [])
    drainers.wait()
    how = how_it_ended(program, process)
    if how.startswith("killed"):
        return f"its process was {how}"
    return how and f"its process {how} {NOT_WRITTEN}"


def close_unread_stderr(program: int) -> None:
    """Close standard error if it is a pipe that the program closed: its reader waits for the end.

    Otherwise keep it open, to print how the program ended.
    """
    own_status = os.fstat(2)
    if not (stat.S_ISFIFO(own_status.st_mode) or stat.S_ISSOCK(own_status.st_mode)):
        return
    with contextlib.suppress(OSError):
        files = f"/proc/{program}/fd"
        open_in_program = {_identity_of(f"{files}/{file}") for file in os.listdir(files)}
        # An exiting process has no files. It may have begun to exit during the listing.
        if (own_status.st_dev, own_status.st_ino) not in open_in_program and os.listdir(files):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _identity_of(file: str) -> "tuple[int, int] | None":
    with contextlib.suppress(OSError):  # closed since it was listed
        status = os.stat(file)
        return status.st_dev, status.st_ino
    return None


class Drainers:
    """Processes that drain the program's recordings in ``folder``."""

    def __init__(self, owner: str, process: int, folder: str, command: "list[str]") -> None:
        """``process``: a file that is readable once the program has ended."""
        self._owner, self._folder, self._process = owner, folder, process
        self._helpers = Helpers(command)
        self._attempts: dict[str, int] = {}
        self._retry_at_s: dict[str, float] = {}
        os.set_inheritable(process, True)

    def look(self) -> None:
        """Start a drainer for each recording that has become long."""
        for file, code in self._helpers.ended():
            if code == 0:  # it drained everything
                self._attempts[file] = _MOST_ATTEMPTS
            elif code == NO_ROOM:
                self._attempts[file] = 0
                self._retry_at_s[file] = time.monotonic() + _RETRY_DELAY_S
        with contextlib.suppress(OSError):
            for file in recordings_of(self._owner, self._folder):
                is_running = self._helpers.is_running(file)
                if not is_running and self._may_start(file) and _is_long(file):
                    self._attempts[file] = self._attempts.get(file, 0) + 1
                    self._helpers.begin("drain", str(self._process), file)

    def _may_start(self, file: str) -> bool:
        if file in self._retry_at_s:
            if time.monotonic() < self._retry_at_s[file] or not _has_room(self._folder):
                return False
            del self._retry_at_s[file]
        return self._attempts.get(file, 0) < _MOST_ATTEMPTS

    def wait(self) -> None:
        """Wait until all drainers have ended; they end after the program."""
        self._helpers.wait()


def _has_room(folder: str) -> bool:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize >= _LEAST_ROOM_BYTES


def _is_long(file: str) -> bool:
    with open(file, "rb") as recording:
        recording.seek(_DRAIN_FROM_AT)
        field = recording.read(8)
        return len(field) == 8 and os.stat(file).st_size >= struct.unpack("Q", field)[0] > 0


def _is_ending(program: int) -> bool:
    """Whether the program is exiting: the kernel closes its files before it reports the end."""
    try:
        return bool(int(fields_of(program)[FLAGS]) & _EXITING)
    except (OSError, ValueError, IndexError):
        return True


def is_recording(program: int, owner: str) -> bool:
    """Whether the program still maps a file of its own recordings."""
    # A stopped ring has no name; it stays mapped while a thread uses one of its blocks.
    with contextlib.suppress(OSError), open(f"/proc/{program}/maps", errors="replace") as maps:
        return any(f"-{owner}-" in line and "(deleted)" not in line for line in maps)
    return False


def in_memory_name(name: str, folder: str) -> str:
    """Name in ``/dev/shm`` of the file of the ring ``name`` in ``folder``."""
    return f"{name}-{zlib.crc32(folder.encode(errors='surrogateescape')):08x}"


def remove_lost_rings(owner: str, folder: str) -> None:
    """Remove rings in ``/dev/shm`` whose notes were deleted with the folder."""
    with contextlib.suppress(OSError):
        for file in os.listdir(IN_MEMORY):
            if f"-{owner}-" in file and file.endswith(in_memory_name("", folder)):
                os.unlink(os.path.join(IN_MEMORY, file))


def is_unfinished(owner: str, folder: str) -> bool:
    """Whether a process left a recording in the folder or one of its cycles."""
    return any(True for _ in below(folder, LeftKind.STREAM, LeftKind.RING, owned_by=owner))


def recordings_of(owner: str, folder: str) -> "Iterator[str]":
    """Files of recordings of a process in a folder and in its cycles."""
    return (str(one.path) for one in below(folder, LeftKind.STREAM, owned_by=owner))


if __name__ == "__main__":
    root, what, *words = sys.argv[1:]
    if what == "job":
        importlib.import_module("job_keeper").JobKeeper(
            int(root), words[0], Helpers(words[1:])
        ).keep()
    else:
        keep_program(int(root), int(words[0]), words[1], words[2], words[3:])
