"""How a process ended that is no child of this one, and helper processes of a keeper.

Until its parent waits for it, ``/proc`` has the exit status of an ended process. From Linux 6.15
on, a ``pidfd`` that was opened before the end has it afterwards.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct

STATE, PARENT, FLAGS, START, EXIT_CODE = 0, 1, 6, 19, 49
"""Fields of ``/proc/PID/stat`` after the name."""

_GET_INFO = 3 << 30 | 64 << 16 | 0xFF << 8 | 11
_INFO_EXIT, _INFO_EXIT_AT = 1 << 3, 60
"""Flag and offset in ``struct pidfd_info``."""


NICENESS = 10
"""Niceness of processes that run beside the program."""

NO_PROCESS = 76
"""Exit code of a keeper that could not fork a process to outlive its parent."""


def detach() -> None:
    """Continue in a process that is not the program's child and has its own session."""
    try:
        child = os.fork()
    except OSError:  # the user has too many processes
        os._exit(NO_PROCESS)
    if child:
        os._exit(0)
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir("/")
    for name in [name for name in os.environ if name.startswith("OPSCOPE_CHILDREN")]:
        del os.environ[name]  # this is not a process of the program


def how_it_ended(process: int, descriptor: int) -> str:
    """How a process ended, as words after its name; empty if unknown.

    Args:
        process: its id.
        descriptor: from ``pidfd_open``; -1 without one.
    """
    status = _status_of_zombie(process)
    if status is None and descriptor >= 0:
        status = _status_of(descriptor)
    if status is None:
        return ""
    if os.WIFSIGNALED(status):
        return f"killed by {signal_name(os.WTERMSIG(status))}"
    return f"exited with code {os.WEXITSTATUS(status)}"


def signal_name(number: int) -> str:
    """Python's name of a signal, such as ``SIGKILL``; ``signal 40`` without one."""
    return next((s.name for s in signal.Signals if s == number), f"signal {number}")


def fields_of(process: int) -> list[str]:
    """Fields of ``/proc/PID/stat`` after the name."""
    with open(f"/proc/{process}/stat", errors="replace") as stat:
        return stat.read().rpartition(")")[2].split()


def start_of(process: int, has_ended: bool = False) -> int:
    """Start of a process in ticks since boot; -1 if it does not exist.

    Also -1 of a zombie, unless ``has_ended`` allows it.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = fields_of(process)
        return -1 if fields[STATE] in "ZX" and not has_ended else int(fields[START])
    return -1


def _status_of_zombie(process: int) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = fields_of(process)
        if fields[STATE] in "ZX":
            return int(fields[EXIT_CODE])
    return None


def _status_of(descriptor: int) -> int | None:
    with contextlib.suppress(OSError):
        info = bytearray(struct.pack("Q", _INFO_EXIT).ljust(64, b"\0"))
        fcntl.ioctl(descriptor, _GET_INFO, info)
        if struct.unpack_from("Q", info)[0] & _INFO_EXIT:
            return int(struct.unpack_from("i", info, _INFO_EXIT_AT)[0])
    return None


class Helpers:
    """Processes that a keeper starts beside the program, each for one purpose."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._running: dict[int, str] = {}

    def begin(self, *words: str) -> None:
        """Start a process; the last word is its purpose."""
        # A reader of standard error waits for all processes that have it: close_unread_stderr.
        silent = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
        command = [*self._command, *words]
        helper = os.posix_spawn(command[0], command, os.environ, file_actions=silent)
        self._running[helper] = words[-1]
        with contextlib.suppress(OSError):  # it has ended already
            os.setpriority(os.PRIO_PROCESS, helper, NICENESS)

    def is_running(self, purpose: str) -> bool:
        """Whether a process with this purpose runs."""
        return purpose in self._running.values()

    def ended(self) -> list[tuple[str, int]]:
        """Purposes and exit codes of processes that ended since the last call."""
        result = []
        for process in list(self._running):
            with contextlib.suppress(ChildProcessError):
                ended, status = os.waitpid(process, os.WNOHANG)
                if ended:
                    result.append((self._running.pop(process), os.waitstatus_to_exitcode(status)))
        return result

    def wait(self) -> None:
        """Wait until all have ended."""
        for process in self._running:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, 0)
        self._running.clear()


def is_there(process: int) -> bool:
    """Whether a process with this id runs; zombies count as ended."""
    if process <= 0:  # kill() would take it for a group of processes
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    return not (state_of(process) in ("Z", "X") and _thread_count(process) == 1)


def state_of(process: int) -> str:
    """The kernel's letter for the state of a process; empty if it cannot be read."""
    with contextlib.suppress(OSError, IndexError):
        return fields_of(process)[STATE]
    return ""


def _thread_count(process: int) -> int:
    """Number of threads: the main thread may end before the others."""
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{process}/task"))
    return 1
