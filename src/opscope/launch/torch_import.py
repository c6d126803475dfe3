"""Call a function when a program imports torch, or a part of it, without importing it first.

torch reads parts of its environment while it is imported (OMP_NUM_THREADS, TORCH_LOGS, ...), and a
program may set them before. Importing torch early would change what the program does.
torch.compile's part takes seconds to import, and most programs never need it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from opscope.launch.program import execute_module


def when_torch_is_imported(callback: Callable[[], None]) -> None:
    """Call ``callback`` once, right after ``import torch`` succeeds; at once if it already did.

    Processes forked from this one do not call it.
    """
    process = os.getpid()

    def call_in_this_process() -> None:
        if os.getpid() == process:
            callback()

    when_imported("torch", call_in_this_process)


def when_imported(name: str, callback: Callable[[], None]) -> ImportWatcher:
    """Call ``callback`` once, after module ``name`` is imported; at once if it already is.

    Returns:
        The import finder that waits for the module.
    """
    watcher = ImportWatcher(name, callback)
    if name in sys.modules:
        callback()
    else:
        sys.meta_path.insert(0, watcher)
    return watcher


class ImportWatcher:
    """An import finder that lets the other finders find the module and wraps its loader."""

    def __init__(self, name: str, callback: Callable[[], None]) -> None:
        self._name = name
        self._callback = callback
        self._is_searching = False

    def forget(self) -> None:
        """Wait no longer."""
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own spec, with a loader that calls back; None for other modules."""
        if fullname != self._name or self._is_searching:
            return None
        self._is_searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._is_searching = False
        if spec is not None and spec.loader is not None:
            self._wrap_loader(spec.loader)
        return spec

    def _wrap_loader(self, loader: object) -> None:
        execute = loader.exec_module  # type: ignore[attr-defined]

        def exec_module(module: ModuleType) -> None:
            execute_module(execute, module)
            self._call_back(loader)

        loader.exec_module = exec_module  # type: ignore[attr-defined]

    def _call_back(self, loader: object) -> None:
        # Remove the watcher before the call; another watcher may have removed the wrapper.
        vars(loader).pop("exec_module", None)
        sys.meta_path.remove(self)
        self._callback()
