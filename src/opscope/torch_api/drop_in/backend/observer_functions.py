"""The C++ functions that torch's ExecutionTraceObserver calls, on opscope's recorder.

As in torch, a process has at most one observer; registering a second one has no effect.
"""

from __future__ import annotations

import atexit
import functools
import warnings
from typing import TYPE_CHECKING

import opscope._native as _native
from opscope.errors import OpscopeError

if TYPE_CHECKING:
    from opscope.torch_api.execution_trace_file import ObservedFile

_section = _native.Section()
_file: ObservedFile | None = None


def add_observer(output_file_name: str) -> bool:
    """Begin a file; False if there is one or, with a warning, if it is not writable."""
    return _section.run(functools.partial(_add, output_file_name))


def _add(output_file_name: str) -> bool:
    global _file
    if _file is not None:
        return False
    from opscope.torch_api.execution_trace_file import ObservedFile

    try:
        file = ObservedFile(output_file_name)
    except OpscopeError as error:
        warnings.warn(f"No execution trace will be recorded: {error}", stacklevel=4)
        return False
    atexit.register(remove_observer)
    _file = file
    return True


def remove_observer() -> None:
    """Write the file."""
    _section.run(_remove)


def _remove() -> None:
    global _file
    if _file is not None:
        _file.stop()
        _file.close()
        atexit.unregister(remove_observer)
        _file = None


def enable_observer() -> None:
    """Start recording."""
    _section.run(_enable)


def _enable() -> None:
    if _file is not None and not _file.is_showing:
        _file.start()


def disable_observer() -> None:
    """Pause recording."""
    if _file is not None:
        _file.stop()
