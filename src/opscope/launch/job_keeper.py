"""The keeper of a job: records how each process ended, and makes traces of ended recordings.

One keeper watches all processes of a folder; it is a process that runs ``keeper_process``.
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
_POLL_INTERVAL_S = 0.5
_MOST_UNTRIED = 32
"""With more ended recordings than this, traces are made while the program still runs."""


class JobKeeper:
    """Watches the processes of one folder."""

    def __init__(self, root: int, journal: str, helpers: Helpers) -> None:
        """``root``: the program's process; ``journal``: file with the list of all processes."""
        self._journal, self._helpers = journal, helpers
        self._folder = os.path.dirname(journal)
        self._watched: dict[int, tuple[int, int]] = {}
        self._journal_offset = 0
        self._tried: set[str] = set()
        self._namespace = _namespace_of(os.getpid())
        self._poll = select.poll()
        self._bell_path = os.path.join(self._folder, ".processes.bell")
        self._bell = _open_bell(self._bell_path)
        if self._bell >= 0:
            self._poll.register(self._bell, select.POLLIN)
        self._root = root
        self._watch(root, start_of(root))

    def keep(self) -> None:
        """Watch the listed processes until the last one has ended."""
        while os.path.exists(self._journal) and (self._watched or self._has_foreign_recordings()):
            self._poll_once()
        self._helpers.wait()
        self._make_traces()
        self._helpers.wait()
        self._remove_bell()

    def _has_foreign_recordings(self) -> bool:
        """Whether processes of other PID namespaces, which are not visible here, record."""
        return any(is_alive(one) for one in below(self._folder, LeftKind.STREAM))

    def _poll_once(self) -> None:
        for file, _ in self._poll.poll(_POLL_INTERVAL_S * 1000):
            if file == self._bell:
                os.read(file, 4096)
            for process, (descriptor, _) in list(self._watched.items()):
                if descriptor == file:
                    self._process_ended(process)
        self._check_without_descriptor()
        self._read_new_entries()
        list(self._helpers.ended())
        has_root = self._root in self._watched
        if len(self._untried_recordings()) > (_MOST_UNTRIED if has_root else 0):
            self._make_traces()

    def _make_traces(self) -> None:
        """Start a process that makes traces of ended recordings, unless one runs."""
        untried = self._untried_recordings()
        if untried and not self._helpers.is_running(self._folder):
            self._tried |= untried
            with contextlib.suppress(OSError):
                self._helpers.begin("job", self._folder)

    def _remove_bell(self) -> None:
        """Remove the pipe, on which copying the folder would block; not the pipe of a later job."""
        if self._bell >= 0:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(self._bell_path), os.fstat(self._bell)):
                    os.unlink(self._bell_path)

    def _read_new_entries(self) -> None:
        with contextlib.suppress(OSError):
            with open(open_inside(self._folder, PROCESSES), "rb") as journal:
                journal.seek(self._journal_offset)
                text = journal.read()
            complete_lines = text[: text.rfind(b"\n") + 1]
            self._journal_offset += len(complete_lines)
            for line in complete_lines.splitlines():
                self._take_entry(line)

    def _take_entry(self, line: bytes) -> None:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            record = json.loads(line)
            is_visible = record.get("space", self._namespace) == self._namespace
            if record["event"] == "began" and is_visible:
                self._watch(int(record["process"]), int(record["start"]))

    def _watch(self, process: int, start: int) -> None:
        if process in self._watched:
            return
        try:
            descriptor = os.pidfd_open(process)
        except OSError:  # the process has ended, or too many files are open
            descriptor = -1
        if start_of(process, has_ended=True) != start:  # its parent has waited for it
            if descriptor >= 0:
                os.close(descriptor)
            return
        self._watched[process] = descriptor, start
        if descriptor >= 0:
            self._poll.register(descriptor, select.POLLIN)

    def _process_ended(self, process: int) -> None:
        descriptor, _ = self._watched.pop(process)
        how = how_it_ended(process, descriptor)
        if descriptor >= 0:
            self._poll.unregister(descriptor)
            os.close(descriptor)
        self._record_end(process, how)

    def _check_without_descriptor(self) -> None:
        for process, (descriptor, start) in list(self._watched.items()):
            if descriptor < 0 and start_of(process) != start:
                self._process_ended(process)

    def _record_end(self, process: int, how: str) -> None:
        if not how:
            return
        record = {"event": "ended", "process": process, "space": self._namespace, "how": how}
        text = json.dumps(record) + "\n"
        with contextlib.suppress(OSError):
            file = open_inside(self._folder, PROCESSES, os.O_WRONLY | os.O_APPEND)
            os.write(file, text.encode())
            os.close(file)

    def _untried_recordings(self) -> "set[str]":
        names = {str(r.path) for r in below(self._folder, LeftKind.STREAM) if is_free(r)}
        return names - self._tried


def _open_bell(path: str) -> int:
    """Open the pipe that starting processes write to; -1 without one."""
    try:
        if not stat.S_ISFIFO(os.lstat(path).st_mode):
            return -1
        # Open for writing too: without a writer, the pipe would always be readable.
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return -1


def _namespace_of(process: int) -> int:
    """Namespace of a process's id, which differs between containers and sandboxes; 0 if unknown."""
    with contextlib.suppress(OSError):
        return os.stat(f"/proc/{process}/ns/pid").st_ino
    return 0
