"""Notes each process of a job in the journal; records the process once it imports torch.

Until then the cost is one line in a file: no other module of opscope is imported.
"""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False  # importing typing would take longer than everything else here
if TYPE_CHECKING:
    from typing import Any

FOLDER = "OPSCOPE_CHILDREN"
"""Environment variable: folder of the trace."""
ANCESTOR_WITH_RANK = "OPSCOPE_CHILDREN_RANK"
"""Environment variable: rank of the nearest ancestor with one; this process is not that rank."""
PYTHON = "OPSCOPE_CHILDREN_PYTHON"
"""Environment variable: the Python that opscope was compiled for."""
PROCESSES = "processes.jsonl"
DOORBELL = ".processes.bell"
"""Pipe that wakes the keeper, faster than polling."""

_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK
_MOST_WORDS, _LONGEST_WORD = 40, 300


def begin_in_new_process() -> None:
    """Note this process, and wait for the import of torch; called when Python starts."""
    folder = os.environ.get(FOLDER, "")
    if not folder or not note_process(folder, "started"):
        return
    if os.environ.get(PYTHON) != sys.implementation.cache_tag:
        note(folder, "refused", why="its Python has another version than opscope's")
        return
    sys.meta_path.insert(0, _TorchFinder(folder, unless="opscope.cli.application"))
    follow_forks(folder)


def follow_forks(folder: str) -> None:
    """Note processes that are forked from now on, and wait for the import of torch in them."""

    def after_in_child() -> None:
        try:
            has_torch = "torch" in sys.modules
            note_process(folder, "forked", has_torch=int(has_torch))
            if not has_torch:
                sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _TorchFinder)]
                sys.meta_path.insert(0, _TorchFinder(folder))
        except Exception:  # a child must run as without opscope
            pass

    os.register_at_fork(after_in_child=after_in_child)


def note_process(folder: str, how: str, **more: Any) -> bool:
    """Add this process to the journal in the folder; False if there is no journal."""
    words = [word[:_LONGEST_WORD] for word in sys.orig_argv[:_MOST_WORDS]]
    listed = ",".join(_quoted(word) for word in words)
    return note(
        folder,
        "began",
        parent=os.getppid(),
        start=_start_ticks(),
        how=how,
        command=_Raw(f"[{listed}]"),
        **more,
    )


def note(folder: str, event: str, **more: Any) -> bool:
    """Add a line about this process to the journal by one write; False if there is no journal."""
    values = {"event": event, "process": os.getpid(), "space": _space(), **more}
    text = ",".join(f"{_quoted(key)}:{_encoded(value)}" for key, value in values.items())
    try:
        file = os.open(os.path.join(folder, PROCESSES), os.O_WRONLY | os.O_APPEND | _PLAIN)
    except OSError:
        return False
    try:
        os.write(file, f"{{{text}}}\n".encode())
    except OSError:
        return False
    finally:
        os.close(file)
    _ring(os.path.join(folder, DOORBELL))
    return True


def _ring(bell: str) -> None:
    try:
        if not stat.S_ISFIFO(os.lstat(bell).st_mode):
            return
        file = os.open(bell, os.O_WRONLY | _PLAIN)
    except OSError:  # no process reads the pipe
        return
    try:
        os.write(file, b".")
    except OSError:  # the pipe is full
        pass
    finally:
        os.close(file)


class _Raw(str):
    """JSON text."""


def _encoded(value: Any) -> str:
    if isinstance(value, _Raw):
        return value
    return str(value) if isinstance(value, int) else _quoted(value)


def _quoted(text: str) -> str:
    # The function that json calls; importing json takes as long as everything else here.
    from _json import encode_basestring_ascii

    return str(encode_basestring_ascii(text))


def _space() -> int:
    """Namespace of process ids, which differs between containers and sandboxes; 0 if unknown."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _start_ticks() -> int:
    try:
        with open("/proc/self/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


class _TorchFinder:
    """An import finder that starts the recording of this process when it imports torch."""

    def __init__(self, folder: str, unless: str = "") -> None:
        """``unless``: no recording if this module is loaded, as in opscope's own commands."""
        self._folder, self._unless = folder, unless

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        if self._unless in sys.modules:
            return None
        try:
            import importlib

            watcher = importlib.import_module("opscope.live.children.child").expect_torch(
                self._folder
            )
        except Exception as error:  # the program runs without being recorded
            note(self._folder, "refused", why=f"opscope cannot be used in it ({error})")
            return None
        return watcher.find_spec(name, path, target)
