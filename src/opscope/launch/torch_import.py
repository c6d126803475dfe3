"""Be told when a program imports torch, without importing it ourselves.

torch reads parts of its environment while it is imported (OMP_NUM_THREADS, TORCH_LOGS, ...), and a
program may set them first. Importing torch before the program does would change what it does.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def when_torch_is_imported(callback: Callable[[], None]) -> None:
    """Call ``callback`` once, right after ``import torch`` succeeds; at once if it already did.

    Processes forked from this one do not call it.
    """
    if "torch" in sys.modules:
        callback()
    else:
        sys.meta_path.insert(0, _TorchWatcher(callback))


class _TorchWatcher(MetaPathFinder):
    """Finds nothing itself: lets the other finders find torch, and listens to its loader."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._process = os.getpid()
        self._asking_the_others = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """torch's own spec, with a loader that calls back; None for anything else."""
        if fullname != "torch" or self._asking_the_others:
            return None
        self._asking_the_others = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking_the_others = False
        if spec is not None and spec.loader is not None:
            self._listen(spec.loader)
        return spec

    def _listen(self, loader: object) -> None:
        execute = loader.exec_module  # type: ignore[attr-defined]

        def exec_module(module: ModuleType) -> None:
            execute(module)
            # Imported: leave no trace of the watcher behind, then say so.
            del loader.exec_module  # type: ignore[attr-defined]
            sys.meta_path.remove(self)
            if os.getpid() == self._process:
                self._callback()

        loader.exec_module = exec_module  # type: ignore[attr-defined]
