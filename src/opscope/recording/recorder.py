"""One recording: a window over the recorder's logs, and the trace it becomes."""

from __future__ import annotations

import importlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from opscope import _native
from opscope.errors import LifecycleError
from opscope.memory_limit import memory_for
from opscope.notice import notice
from opscope.options import RecordingOptions
from opscope.recording import bridge
from opscope.recording.assemble import assemble_trace
from opscope.recording.cost import recording_cost_ns
from opscope.recording.distributed_job import note_job
from opscope.recording.event_timing import EventTiming
from opscope.recording.garbage import watch_gc
from opscope.recording.gpu_collecting import begin_gpu, end_gpu, wait_for_devices
from opscope.recording.gpu_events import merge_gpu
from opscope.recording.narrow import narrowed
from opscope.recording.neighbours import (
    is_recording,
    leave_place,
    set_up_neighbours,
    take_place,
)
from opscope.recording.process_groups import read_process_groups
from opscope.recording.python_source import path_prefixes, set_up_python_source
from opscope.trace.trace import Trace

_reported_fault = False


class Recording:
    """A window: from ``start`` to ``stop``, decoded on the first look at ``trace``.

    Starting and stopping may happen on any thread, both are idempotent, and several recordings may
    overlap. Memory is given back when the trace is decoded or the object is dropped.
    """

    def __init__(
        self, options: RecordingOptions, more: RecordingOptions | None = None, first_id: int = 1
    ) -> None:
        """Record what ``options`` ask for.

        Args:
            options: what ``trace`` shows.
            more: what somebody else needs of the same span of time; ``everything`` has that too.
            first_id: ``record_function_id`` of the first event.
        """
        self.options = options
        self._recorded = options if more is None else options.union(more)
        self._first_id = first_id
        self._groups: dict[str, Any] = {}
        self._when_stopped: list[Callable[[], object]] = []
        self._window: _Window | None = None
        self._everything: Trace | None = None
        self._trace: Trace | None = None
        self._let_go: weakref.finalize[Any, Any] | None = None
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Do everything slow that starting needs: load, and if need be compile, the bridge.

        Raises:
            BridgeError: it cannot be built or loaded.
        """
        # np.unique would import it when a trace is first looked at. A child that is forked in the
        # middle of an import waits for ever when it looks at a trace of its own.
        importlib.import_module("numpy.ma")
        bridge.load()
        set_up_python_source()
        set_up_neighbours()

    def start(self) -> None:
        """Open the window.

        Raises:
            BridgeError: the torch bridge cannot be built or loaded.
            LifecycleError: torch refused the callbacks, or this recording was stopped already.
        """
        self.prepare()
        if self._recorded.outputs:
            self._groups |= read_process_groups()
        with self._lock:
            if self.running:
                return
            if self._window is not None:
                raise LifecycleError("A recording runs once; make a new one to record again.")
            self._window = _Window(self._recorded)
            self._let_go = weakref.finalize(self, self._window.discard)
            # At exit memory is given back anyway, and an exit function may still want the trace.
            self._let_go.atexit = False

    def stop(self) -> None:
        """Close the window. Takes time for the number of threads, not for what was recorded.

        With devices recorded, waits until they have run what was launched, as torch.profiler does.
        """
        with self._lock:
            if self._window is None or not self._window.is_open:
                return
            self._window.close()
        note_job()
        if self._recorded.outputs:
            self._groups |= read_process_groups()
        _report_fault()
        for callback in self._when_stopped:
            callback()

    def when_stopped(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` once this has stopped."""
        self._when_stopped.append(callback)

    def pause(self, paused: bool) -> None:
        """Leave out what happens until resumed; nothing to do when not running."""
        window = self._window
        if window is not None and window.is_open:
            _native.pause_window(window.id, paused)

    def pause_devices(self, paused: bool) -> None:
        """Leave out what devices do until resumed; nothing to do when not running."""
        if self.running and self._recorded.gpu:
            if paused:
                wait_for_devices()
            _native.pause_gpu(paused)

    @property
    def running(self) -> bool:
        """Between start and stop."""
        return self._window is not None and self._window.is_open

    @property
    def trace(self) -> Trace:
        """What was asked for; decoded once, off the GIL.

        Raises:
            InsufficientMemoryError: it does not fit in memory.
            LifecycleError: not stopped yet, or never started.
        """
        everything = self.everything
        with self._lock:
            if self._trace is None:
                self._trace = narrowed(everything, self._recorded, self.options)
            return self._trace

    @property
    def everything(self) -> Trace:
        """What was recorded, for whomever; the events are those of ``trace``.

        Raises:
            LifecycleError: as ``trace``.
        """
        with self._lock:
            if self._everything is None:
                if self._window is None or self._window.is_open:
                    raise LifecycleError(
                        "There is no trace yet: a recording can be looked at once it has been "
                        "started and stopped."
                    )
                with memory_for("decoding what was recorded"):
                    self._everything = self._decode(self._window)
            return self._everything

    def _decode(self, window: _Window) -> Trace:
        if self._recorded.gpu and _native.gpu_is_wanted():  # else stopping waited
            wait_for_devices()
        decoded = _native.decode(window.id, path_prefixes())
        if self._let_go is not None:
            self._let_go()
        decoded["gpu_refused"] = window.gpu_refused
        decoded["occupied_threads"] = window.occupied_threads
        if "gpu" in decoded:
            merge_gpu(decoded)
        if window.timing is not None:
            window.timing.add_to(decoded)
        events = decoded["events"]
        if self._first_id != 1 and "record_function_id" not in events:
            first, count = self._first_id, len(events["start_ns"])
            events["record_function_id"] = np.arange(first, first + count, dtype=np.int64)
        trace = assemble_trace(decoded, self._recorded, recording_cost_ns())
        return trace.with_metadata({"process_groups": self._groups}) if self._groups else trace


class _Window:
    """A native window and what is set up around it; lives on for a moment after its Recording."""

    def __init__(self, options: RecordingOptions) -> None:
        """Open it.

        Raises:
            LifecycleError: torch refused the callbacks.
        """
        try:
            self.id = _native.open_window(options.native_wants(_native.WANTS), options.all_threads)
        except RuntimeError as error:
            raise LifecycleError(
                f"Recording could not start: {error}. Stop what else profiles this process, then "
                "try again."
            ) from error
        self.is_open = True
        self._hears_calls = options.stack
        self.occupied_threads = _native.statistics()["occupied_threads"] if options.stack else 0
        self._process = os.getpid()
        self._has_gpu = options.gpu
        times = options.cuda_events or os.environ.get("OPSCOPE_CUDA_EVENTS") == "1"
        self.gpu_refused = begin_gpu(times) if options.gpu else ""
        timing = EventTiming() if self.gpu_refused and times else None
        self.timing = timing if timing is not None and timing.begin() else None
        self._watches_gc = options.gc_pauses
        if self._watches_gc:
            watch_gc(+1)
        take_place()

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        if self._hears_calls:  # a tool that came meanwhile may have left again
            unheard = _native.statistics()["occupied_threads"]
            self.occupied_threads = max(self.occupied_threads, unheard)
        _native.close_window(self.id)
        if self.timing is not None:
            self.timing.end()
        if self._has_gpu:
            end_gpu()
        if self._watches_gc and os.getpid() == self._process:  # a child counts from 0
            watch_gc(-1)
        if not is_recording():
            leave_place()

    def discard(self) -> None:
        self.close()
        _native.discard_window(self.id)


def _report_fault() -> None:
    global _reported_fault
    fault = _native.fault()
    if fault and not _reported_fault:
        _reported_fault = True
        first_line = fault.splitlines()[0]
        notice(
            f"recording stopped early because of an internal fault: {first_line}. The "
            "program was not affected; what was recorded before is kept."
        )
