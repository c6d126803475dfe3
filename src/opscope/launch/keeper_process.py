"""The keeper: waits for the end of another process, and finishes its trace if that could not.

Run by its path, and until there is something to do it imports no more than this: it should cost
next to nothing while the program runs.
"""

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import sys

_NICENESS = 10
_STATE, _FLAGS, _EXIT_CODE = 0, 6, 49
"""Fields of ``/proc/PID/stat`` after the name."""
_EXITING = 4
_GET_INFO = 3 << 30 | 64 << 16 | 0xFF << 8 | 11
_INFO_EXIT, _INFO_EXIT_AT = 1 << 3, 60
"""From Linux 6.15 on, for a process that has been waited for already."""

_THEN = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from opscope.cli.keeper import finish; finish(*sys.argv[2:])"
)


def main(program: int, pipe: int, folder: str, package: str) -> None:
    """Wait for ``program``; then, if it left something unfinished, become what finishes that.

    Args:
        program: process id.
        pipe: the program has its other end open for as long as it is there.
        folder: of the trace.
        package: where opscope can be imported from.
    """
    if os.fork():  # so that the program has no child that it does not know of
        os._exit(0)
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    os.chdir("/")
    how = wait_for(program, pipe)
    os.close(pipe)
    if is_unfinished(program, folder):
        found = [package, folder, str(program), how]
        os.execv(sys.executable, [sys.executable, "-c", _THEN, *found])


def wait_for(program: int, pipe: int) -> str:
    """Wait until it has ended, is another program, or says that all is done; how it ended."""
    try:
        process = os.pidfd_open(program)
    except OSError:  # it has ended already, or the system is old
        select.select([pipe], [], [])
        return ""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.register(pipe, select.POLLIN)
    while process not in [file for file, _ in poll.poll()] and not _is_ending(program):
        # Only the pipe has ended.
        if not is_recording(program):
            return "its process became another program (exec)"
        poll.unregister(pipe)  # the program has closed what it does not know
    select.select([process], [], [])
    return end_of(program, process)


def _is_ending(program: int) -> bool:
    """Whether it is about to be gone: its files are closed before it can be waited for."""
    try:
        return bool(int(_stat_of(program)[_FLAGS]) & _EXITING)
    except (OSError, ValueError, IndexError):
        return True


def is_recording(program: int) -> bool:
    """Whether it still has a file of a recording in its memory."""
    try:
        with open(f"/proc/{program}/maps", errors="replace") as maps:
            return any(f"/.recording-{program}-" in line for line in maps)
    except OSError:
        return False


def is_unfinished(program: int, folder: str) -> bool:
    """Whether it left a recording there, or in one of its cycles."""
    ours = re.compile(rf"\.recording-{program}-\d+\.opscope")
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if ours.fullmatch(entry.name):
                return True
            is_cycle = entry.name.startswith("cycle-") and entry.is_dir()
            if is_cycle and any(map(ours.fullmatch, os.listdir(entry.path))):
                return True
    return False


def end_of(program: int, process: int) -> str:
    """What became of a process; empty where that cannot be told."""
    status = _status_of_zombie(program)
    if status is None:
        status = _status_of(process)
    if status is None:
        return ""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = next((s.name for s in signal.Signals if s == number), f"signal {number}")
        return f"its process was killed by {name}"
    code = os.WEXITSTATUS(status)
    return f"its process exited with code {code} before it could be written (os._exit)"


def _status_of_zombie(program: int) -> "int | None":
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = _stat_of(program)
        if fields[_STATE] in "ZX":
            return int(fields[_EXIT_CODE])
    return None


def _stat_of(program: int) -> "list[str]":
    with open(f"/proc/{program}/stat", errors="replace") as stat:
        return stat.read().rpartition(")")[2].split()


def _status_of(process: int) -> "int | None":
    with contextlib.suppress(OSError):
        info = bytearray(struct.pack("Q", _INFO_EXIT).ljust(64, b"\0"))
        fcntl.ioctl(process, _GET_INFO, info)
        if struct.unpack_from("Q", info)[0] & _INFO_EXIT:
            return int(struct.unpack_from("i", info, _INFO_EXIT_AT)[0])
    return None


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
