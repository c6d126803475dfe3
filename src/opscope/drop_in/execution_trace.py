"""The functions torch's ExecutionTraceObserver calls into C++ for, on opscope's recorder.

As in torch there is at most one observer in a process; a second one registers without effect.
"""

from __future__ import annotations

import atexit
import warnings

from opscope.errors import OpscopeError
from opscope.observed_file import ObservedFile
from opscope.process_lock import process_lock

_lock = process_lock()
_file: ObservedFile | None = None
_enabled = False


def add_observer(output_file_name: str) -> bool:
    """Begin a file; False if there is one already or, with a warning, if it cannot be written."""
    global _file
    with _lock:
        if _file is not None:
            return False
        try:
            _file = ObservedFile(output_file_name)
        except OpscopeError as error:
            warnings.warn(f"No execution trace will be recorded: {error}", stacklevel=3)
            return False
        atexit.register(remove_observer)
        return True


def remove_observer() -> None:
    """Write the file."""
    global _file
    disable_observer()
    with _lock:
        file, _file = _file, None
    if file is not None:
        atexit.unregister(remove_observer)
        file.close()


def enable_observer() -> None:
    """Record from now on."""
    global _enabled
    with _lock:
        if _file is not None and not _enabled:
            _file.start()
            _enabled = True


def disable_observer() -> None:
    """Record no more, until enabled again."""
    global _enabled
    with _lock:
        if _file is not None and _enabled:
            _enabled = False
            _file.stop()
