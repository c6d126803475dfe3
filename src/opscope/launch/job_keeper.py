"""The keeper of a job: notes how each process ended, and has traces made of what is left.

One for all processes of a folder, in the process that ``keeper_process`` starts.
"""

import contextlib
import json
import os
import select
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from opscope.base.artefacts import LeftKind, below, is_alive, is_free
    from opscope.base.files import open_inside
    from opscope.launch.process_end import Helpers, how_it_ended, start_of
else:  # as in ``keeper_process``
    from artefacts import LeftKind, below, is_alive, is_free
    from files import open_inside
    from process_end import Helpers, how_it_ended, start_of

PROCESSES = "processes.jsonl"
_LOOK_EVERY_S = 0.5
_MOST_LEFT = 32
"""Number of ended recordings from which traces are written while the program still runs."""


class JobKeeper:
    """State of the processes of one folder."""

    def __init__(self, root: int, journal: str, helpers: Helpers) -> None:
        """``root``: the program's process; ``journal``: file with the list of all processes."""
        self._journal, self._helpers = journal, helpers
        self._folder = os.path.dirname(journal)
        self._watched: dict[int, tuple[int, int]] = {}
        self._read_to = 0
        self._tried: set[str] = set()
        self._space = _space_of(os.getpid())
        self._poll = select.poll()
        self._place_of_bell = os.path.join(self._folder, ".processes.bell")
        self._bell = _open_bell(self._place_of_bell)
        if self._bell >= 0:
            self._poll.register(self._bell, select.POLLIN)
        self._root = root
        self._watch(root, start_of(root))

    def keep(self) -> None:
        """Watch the listed processes until the last one has ended."""
        while os.path.exists(self._journal) and (self._watched or self._has_others()):
            self._look()
        self._helpers.wait()
        self._make_traces()
        self._helpers.wait()
        self._take_down()

    def _has_others(self) -> bool:
        """Whether processes in other namespaces, which are not visible here, record."""
        return any(is_alive(one) for one in below(self._folder, LeftKind.STREAM))

    def _look(self) -> None:
        for file, _ in self._poll.poll(_LOOK_EVERY_S * 1000):
            if file == self._bell:
                os.read(file, 4096)
            for process, (known, _) in list(self._watched.items()):
                if known == file:
                    self._ended(process)
        self._without_descriptor()
        self._see_new()
        list(self._helpers.ended())
        has_root = self._root in self._watched
        if len(self._left()) > (_MOST_LEFT if has_root else 0):
            self._make_traces()

    def _make_traces(self) -> None:
        """Let another process, one at a time, make traces of ended recordings."""
        left = self._left()
        if left and not self._helpers.is_running(self._folder):
            self._tried |= left
            with contextlib.suppress(OSError):
                self._helpers.begin("job", self._folder)

    def _take_down(self) -> None:
        """Remove the pipe, unless a later job made it: copying the folder would block on it."""
        if self._bell >= 0:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(self._place_of_bell), os.fstat(self._bell)):
                    os.unlink(self._place_of_bell)

    def _see_new(self) -> None:
        with contextlib.suppress(OSError):
            with open(open_inside(self._folder, PROCESSES), "rb") as journal:
                journal.seek(self._read_to)
                text = journal.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._read_to += len(whole)
            for line in whole.splitlines():
                self._take(line)

    def _take(self, line: bytes) -> None:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            record = json.loads(line)
            if record["event"] == "began" and record.get("space", self._space) == self._space:
                self._watch(int(record["process"]), int(record["start"]))

    def _watch(self, process: int, start: int) -> None:
        if process in self._watched:
            return
        try:
            descriptor = os.pidfd_open(process)
        except OSError:  # already gone, or too many open files
            descriptor = -1
        if start_of(process) != start:  # gone, and its id is reused
            if descriptor >= 0:
                os.close(descriptor)
            return
        self._watched[process] = descriptor, start
        if descriptor >= 0:
            self._poll.register(descriptor, select.POLLIN)

    def _ended(self, process: int) -> None:
        descriptor, _ = self._watched.pop(process)
        how = how_it_ended(process, descriptor)
        if descriptor >= 0:
            self._poll.unregister(descriptor)
            os.close(descriptor)
        self._note(process, how)

    def _without_descriptor(self) -> None:
        for process, (descriptor, start) in list(self._watched.items()):
            if descriptor < 0 and start_of(process) != start:
                self._ended(process)

    def _note(self, process: int, how: str) -> None:
        if not how:
            return
        record = {"event": "ended", "process": process, "space": self._space, "how": how}
        text = json.dumps(record) + "\n"
        with contextlib.suppress(OSError):
            file = open_inside(self._folder, PROCESSES, os.O_WRONLY | os.O_APPEND)
            os.write(file, text.encode())
            os.close(file)

    def _left(self) -> "set[str]":
        names = {str(one.path) for one in below(self._folder, LeftKind.STREAM) if is_free(one)}
        return names - self._tried


def _open_bell(path: str) -> int:
    """The pipe that starting processes write to; -1 without one."""
    try:
        if not stat.S_ISFIFO(os.lstat(path).st_mode):
            return -1
        # Also for writing, so that reading never ends.
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return -1


def _space_of(process: int) -> int:
    """Namespace of a process's id, which differs between containers and sandboxes; 0 if unknown."""
    with contextlib.suppress(OSError):
        return os.stat(f"/proc/{process}/ns/pid").st_ino
    return 0
