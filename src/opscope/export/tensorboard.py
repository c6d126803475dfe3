"""``tensorboard_trace_handler``: a Chrome trace per cycle with a name for TensorBoard's plugin."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from opscope.base.address import refuse_address
from opscope.errors import UsageError


class ExportsChromeTrace(Protocol):
    """The profiler method that the handler needs; opscope's and torch's profilers have it."""

    def export_chrome_trace(self, path: str, use_python_export: bool = ...) -> None:
        """Write the last cycle's trace."""


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str],
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[ExportsChromeTrace], None]:
    """An ``on_trace_ready`` that writes ``{worker}.{time}.pt.trace.json`` into a folder.

    Args:
        dir_name: TensorBoard's log folder; created when the first trace is written.
        worker_name: different for every process of a job; by default host name and process id.
        use_gzip: write ``.json.gz``.
        use_python_export: ignored; torch.profiler has it.

    Returns:
        A handler that never overwrites a file; UsageError if it cannot write to the folder.
    """

    refuse_address(dir_name)

    def handle(profiler: ExportsChromeTrace) -> None:
        folder = _make_folder(os.fspath(dir_name))
        # A forked worker must not use its parent's name.
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        path = _free_path(folder, worker, ".json.gz" if use_gzip else ".json")
        profiler.export_chrome_trace(str(path), use_python_export=use_python_export)

    return handle


def _make_folder(name: str) -> Path:
    try:
        os.makedirs(name, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"Can't create directory: {name} ({error.strerror or error}). Give "
            "tensorboard_trace_handler a folder that you may create or write to."
        ) from error
    return Path(name)


def _free_path(folder: Path, worker: str, suffix: str) -> Path:
    """A path that does not exist; two cycles may end within one tick of a coarse clock."""
    time_ns = time.time_ns()
    while (path := folder / f"{worker}.{time_ns}.pt.trace{suffix}").exists():
        time_ns += 1
    return path
