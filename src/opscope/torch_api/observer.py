"""``ExecutionTraceObserver``: torch.profiler's interface to execution traces."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import warnings
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opscope.torch_api.execution_trace_file import ObservedFile


class ExecutionTraceObserver:
    """Writes arguments and results of operators, and the call tree, to a JSON file.

    Replaces torch.profiler.ExecutionTraceObserver: register a file, then call ``start`` and
    ``stop`` any number of times, or pass the object to ``profile(execution_trace_observer=...)``,
    which calls them for its recorded steps. ``unregister_callback`` (or ``cleanup``, or the end of
    the object or of the process) writes the file.

    In addition, several observers may run at once, recording costs a fraction, no tensor stays
    alive, nodes have start and duration, and ``rf_id`` is the ``Record function id`` of the same
    operator in the Chrome trace of a concurrent profile.
    """

    def __init__(self) -> None:
        self._registered = False
        self.extra_resources_collection = False
        self.resources_dir = ""
        self.output_file_path = ""
        self.output_file_path_observer = ""
        self._file: ObservedFile | None = None
        self._at_exit: weakref.finalize[Any, Any] | None = None

    def __del__(self) -> None:
        self.unregister_callback()

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """A registered observer if ``ENABLE_PYTORCH_EXECUTION_TRACE`` is 1, otherwise None.

        It writes to ``PYTORCH_EXECUTION_TRACE_PATH`` or, without that, to a new temporary file, and
        copies generated kernels beside it if ``ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS`` is 1.
        """
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        observer = ExecutionTraceObserver()
        try:
            observer.register_callback(_path_from_environment())
        except (OSError, ValueError) as error:
            warnings.warn(f"No execution trace will be recorded: {error}", stacklevel=2)
            return None
        extras = os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "0")
        observer.set_extra_resource_collection(extras == "1")
        return observer

    def register_callback(self, output_file_path: str | os.PathLike[str]) -> ExecutionTraceObserver:
        """Set the file to write, ``.json`` or ``.json.gz``; no effect while registered.

        Returns:
            This object.

        Raises:
            UsageError: the file cannot be written.
        """
        if not self._registered:
            # Every profile imports this module, but few write execution traces.
            from opscope.torch_api.execution_trace_file import ObservedFile

            path = os.path.abspath(output_file_path)
            self._file = ObservedFile(path)
            self._at_exit = weakref.finalize(self, self._file.close)
            self.output_file_path = os.fspath(output_file_path)
            self.output_file_path_observer = self.output_file_path
            self._registered = True
        return self

    def unregister_callback(self) -> None:
        """Stop, and write the file; warns if it cannot be written. Idempotent."""
        if not self._registered or self._file is None:
            return
        self.stop()
        self._save_kernels()
        self._file.close()
        if self._at_exit is not None:
            self._at_exit.detach()
        self._file = None
        self._registered = False

    @property
    def is_registered(self) -> bool:
        """Whether a file is registered."""
        return self._registered

    def is_running(self) -> bool:
        """Whether the observer is recording."""
        return self._file is not None and self._file.is_showing

    @property
    def _execution_trace_running(self) -> bool:
        return self.is_running()

    def start(self) -> None:
        """Start recording. No effect while running or not registered.

        Raises:
            BridgeError: the recorder cannot be set up; the message says what to install.
        """
        if self._file is not None and not self.is_running():
            self._file.start()
            _record_process_groups()

    def stop(self) -> None:
        """Stop recording. No effect while not running."""
        if self._file is not None:
            self._file.stop()

    def cleanup(self) -> None:
        """Alias of :meth:`unregister_callback`."""
        self.unregister_callback()

    def get_output_file_path(self) -> str | None:
        """The registered path as given; None before registration."""
        return self.output_file_path or None

    def set_extra_resource_collection(self, val: bool) -> None:
        """Set whether to copy generated kernels to a folder beside the file."""
        self.extra_resources_collection = val
        if val:
            self.get_resources_dir(can_create=True)

    def get_resources_dir(self, can_create: bool = False) -> str | None:
        """Folder for generated kernels; None if not requested or missing."""
        if not self.extra_resources_collection:
            return None
        if not self.resources_dir:
            folder = self.get_resources_dir_for_et_path(self.output_file_path, can_create)
            self.resources_dir = folder or ""
        return self.resources_dir or None

    @staticmethod
    def get_resources_dir_for_et_path(
        trace_path: str | os.PathLike[str], create_dir: bool = False
    ) -> str | None:
        """The folder of an execution trace: ``NAME_resources`` for ``NAME.json``.

        None if it does not exist and was not created.
        """
        path = Path(trace_path)
        folder = path.with_name(f"{path.stem}_resources")
        if create_dir and not folder.exists():
            try:
                folder.mkdir()
            except OSError as error:
                warnings.warn(f"{folder} cannot be created: {error.strerror}.", stacklevel=2)
        return str(folder) if folder.exists() else None

    def _save_kernels(self) -> None:
        folder = self.get_resources_dir()
        inductor = sys.modules.get("torch._inductor.codecache")
        if folder is None or inductor is None:
            return
        for module in inductor.PyCodeCache.modules:
            try:
                if getattr(module, "__file__", None):
                    shutil.copy(module.__file__, folder)
            except OSError as error:
                warnings.warn(f"A generated kernel was not copied: {error}", stacklevel=3)


def _path_from_environment() -> str:
    path = os.environ.get("PYTORCH_EXECUTION_TRACE_PATH")
    if path:
        return path
    with tempfile.NamedTemporaryFile("w", suffix=".et.json", delete=False) as file:
        return file.name


def _record_process_groups() -> None:
    """Record torch.distributed's description of its groups, under torch's name."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    import torch

    groups = distributed.distributed_c10d._world.pg_config_info
    torch.autograd._record_function_with_args_enter(
        "## process_group:init ##", json.dumps(groups, default=str)
    )
