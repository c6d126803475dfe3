"""One recording: a window over the recorder's logs, and the trace it becomes."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

from opscope import _native
from opscope.errors import LifecycleError
from opscope.options import RecordingOptions
from opscope.recording import bridge
from opscope.recording.assemble import assemble_trace
from opscope.recording.cost import recording_cost_ns
from opscope.recording.python_source import path_prefixes, set_up_python_source
from opscope.trace.trace import Trace

_gc_lock = threading.Lock()
_gc_users = 0
_reported_fault = False


class Recording:
    """A window: from ``start`` to ``stop``, decoded on the first look at ``trace``.

    Starting and stopping may happen on any thread, both are idempotent, and several recordings may
    overlap. Memory is given back when the trace is decoded or the object is dropped.
    """

    def __init__(self, options: RecordingOptions) -> None:
        self.options = options
        self._window: int | None = None
        self._running = False
        self._trace: Trace | None = None
        self._discard: weakref.finalize[Any, Any] | None = None
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Do everything slow that starting needs: load, and if need be compile, the bridge.

        Raises:
            BridgeError: it cannot be built or loaded.
        """
        bridge.load()
        set_up_python_source()

    def start(self) -> None:
        """Open the window.

        Raises:
            BridgeError: the torch bridge cannot be built or loaded.
            LifecycleError: torch refused the callbacks, or this recording was stopped already.
        """
        self.prepare()
        with self._lock:
            if self._running:
                return
            if self._window is not None:
                raise LifecycleError("A recording runs once; make a new one to record again.")
            if self.options.gc_pauses:
                _watch_gc(+1)
            _native.enter_thread()
            try:
                wants = self.options.native_wants(_native.WANTS)
                self._window = _native.open_window(wants, self.options.all_threads)
            except RuntimeError as error:
                raise LifecycleError(f"Recording could not start: {error}.") from error
            self._running = True
            _set_torch_flag(True)
            self._discard = weakref.finalize(self, _native.discard_window, self._window)
            # At exit memory is given back anyway, and an exit function may still want the trace.
            self._discard.atexit = False

    def stop(self) -> None:
        """Close the window. Takes time for the number of threads, not for what was recorded."""
        with self._lock:
            if not self._running or self._window is None:
                return
            _native.close_window(self._window)
            self._running = False
        if self.options.gc_pauses:
            _watch_gc(-1)
        if _native.statistics()["wanted"] == 0:
            _native.leave_thread()
            _set_torch_flag(False)
        _report_fault()

    def pause(self, paused: bool) -> None:
        """Leave out what happens until resumed; nothing to do when not running."""
        if self._running and self._window is not None:
            _native.pause_window(self._window, paused)

    @property
    def running(self) -> bool:
        """Between start and stop."""
        return self._running

    @property
    def trace(self) -> Trace:
        """What was recorded; decoded once, off the GIL.

        Raises:
            LifecycleError: not stopped yet, or never started.
        """
        with self._lock:
            if self._trace is None:
                if self._window is None or self._running:
                    raise LifecycleError(
                        "There is no trace yet: a recording can be looked at once it has been "
                        "started and stopped."
                    )
                decoded = _native.decode(self._window, path_prefixes())
                if self._discard is not None:
                    self._discard()
                self._trace = assemble_trace(decoded, self.options, recording_cost_ns())
            return self._trace


def _watch_gc(change: int) -> None:
    """Have garbage collections reported while any recording wants them."""
    global _gc_users
    with _gc_lock:
        _gc_users += change
        installed = _native.gc_callback in gc.callbacks
        if _gc_users > 0 and not installed:
            gc.callbacks.append(_native.gc_callback)
        elif _gc_users == 0 and installed:
            gc.callbacks.remove(_native.gc_callback)


def _set_torch_flag(enabled: bool) -> None:
    """Libraries ask this flag whether emitting spans is worth it."""
    profiler = sys.modules.get("torch.autograd.profiler")
    if profiler is not None:
        profiler.__dict__["_is_profiler_enabled"] = enabled


def _report_fault() -> None:
    global _reported_fault
    fault = _native.fault()
    if fault and not _reported_fault:
        _reported_fault = True
        first_line = fault.splitlines()[0]
        print(
            f"opscope: recording stopped early because of an internal fault: {first_line}. The "
            "program was not affected; what was recorded before is kept.",
            file=sys.stderr,
        )
