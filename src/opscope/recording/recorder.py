"""One recording: a window over the recorder's logs, and the trace it becomes."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.ma  # noqa: F401 (np.unique imports it; not in a forked child, where that may hang)

import opscope._native as _native
from opscope.base.memory_limit import default_growth_bytes, memory_for
from opscope.base.notice import notice
from opscope.columns.confidential_copy import apply_confidentiality
from opscope.columns.trace_data import TraceData
from opscope.errors import LifecycleError
from opscope.recording.assemble import assemble_trace
from opscope.recording.cost import cost_by_kind
from opscope.recording.decoded import Decoded, read_decoded
from opscope.recording.detail import DetailStretches
from opscope.recording.facts.process_facts import note_job
from opscope.recording.facts.program_facts import ProgramFacts, write_state
from opscope.recording.facts.python_source import path_prefixes
from opscope.recording.gpu.devices import end_gpu_in_stream, wait_for_devices
from opscope.recording.gpu.events import with_devices
from opscope.recording.sources import (
    RecordingOptions,
    listeners_of,
    native_wants,
    prepare_sources,
)
from opscope.recording.streams.stream import NO_ROOM, Stream, about_recording

if TYPE_CHECKING:
    from opscope._native import DecodedWindow

_FIRST_UNKNOWN = (3, 16)  # first version of Python that cannot be recorded without the GIL


def refuse_without_gil() -> None:
    """Raise LifecycleError if the GIL is off, on Python 3.16 and later.

    3.13t to 3.15t are recorded without the GIL; frame layouts of later builds are unknown. There,
    importing the native core enables the GIL, unless ``PYTHON_GIL=0`` or ``-X gil=0`` keeps it off.
    """
    is_enabled = getattr(sys, "_is_gil_enabled", None)
    is_known = sys.version_info[:2] < _FIRST_UNKNOWN
    if not is_known and is_enabled is not None and not is_enabled():
        raise LifecycleError(
            "opscope cannot record free-threaded Python 3.16 or later: it would read frames of "
            "other threads while they change. Run the program with PYTHON_GIL=1 (or -X gil=1), "
            "or with Python 3.13t to 3.15t."
        )


_reported_fault = False
_NOT_INHERITED = (
    "The recording belongs to the parent process, which continues it. Read the trace there, or "
    "before the fork."
)


class Recording:
    """A window from ``start`` to ``stop``, decoded at the first use of ``trace``.

    Any thread may start or stop it, both are idempotent, and recordings may overlap. Decoding the
    trace or dropping the object releases its memory.

    A signal handler may raise an exception anywhere in here. The recording then either runs and can
    be stopped, or does not run; one native object, :class:`Held`, holds that state.
    """

    def __init__(
        self,
        options: RecordingOptions,
        stream: Stream | None = None,
        max_memory_bytes: int | None = None,
        detail: RecordingOptions | None = None,
    ) -> None:
        """Prepare a recording of ``options``.

        Args:
            options: what is recorded throughout.
            stream: the file that records are in; None for memory only.
            max_memory_bytes: memory that records may take in addition to what they have; None for
                half of the free memory. The largest value of several recordings counts for all.
            detail: additional options at the start, and later while ``record_detail`` is on.
        """
        self.stream = stream
        self._recorded = options if detail is None else options.union(detail)
        self._window = _Window(self._recorded, options, stream, max_memory_bytes)
        # No Python function: an exception in a destructor would be printed and lost.
        self._give_back = functools.partial(_native.discard_window, self._window.id)
        self._is_given_back = False
        self._held = _native.Held(self._window.open, self._window.close, self._give_back)
        self._decoding = _native.Section()
        self._made: TraceData | None = None
        self._saved_in: Path | None = None

    def prepare(self) -> None:
        """Do the slow part of starting: load the bridge, and compile it if necessary."""
        refuse_without_gil()
        prepare_sources()

    def start(self) -> None:
        """Open the window.

        Raises:
            BridgeError: the torch bridge cannot be built or loaded.
            LifecycleError: torch refused the callbacks, or this recording was stopped already.
        """
        self.prepare()
        if self.running:
            return
        if self._held.was_opened:
            raise LifecycleError("A recording runs once; create a new one to record again.")
        self._held.open()

    def stop(self) -> None:
        """Close the window. The time depends on the number of threads, not on the amount recorded.

        With devices, waits until all launched work has run, as torch.profiler does.
        """
        was_running = self.running
        self._held.close()
        if was_running:
            note_job()
            _report_fault()
            _report_fork(self._window.process)

    def pause(self, paused: bool) -> None:
        """Leave out events until resumed; no effect when not running."""
        if self.running:
            _native.pause_window(self._window.id, paused)

    def record_detail(self, on: bool, steps: int = 0) -> None:
        """Begin or end a stretch in detail, in which ``steps`` ended; no effect if not running."""
        if self.running and self._window.process == os.getpid():
            self._window.record_detail(on, steps)

    def pause_devices(self, paused: bool) -> None:
        """Leave out device activity until resumed; no effect when not running."""
        if self.running and self._recorded.gpu:
            if paused:
                wait_for_devices()
            _native.pause_gpu(paused)

    @property
    def running(self) -> bool:
        """Whether the recording was started and not stopped."""
        return self._held.is_open

    @property
    def has_ended(self) -> bool:
        """Whether the recording was started and stopped, so that there is a trace."""
        return self._held.was_opened and not self._held.is_open

    def leave_to_its_file(self) -> None:
        """Release the memory: another process makes the trace."""
        self._give_back()
        self._is_given_back = True

    @property
    def recorded(self) -> RecordingOptions:
        """All options, including those of detail stretches."""
        return self._recorded

    @property
    def trace(self) -> TraceData:
        """The trace; decoded once, without the GIL.

        Raises:
            InsufficientMemoryError: the trace does not fit in memory.
            LifecycleError: not stopped yet, or never started.
        """
        if self._made is None:
            self._decoding.run(self._decode)
        if not self._is_given_back:
            self._give_back()
            self._is_given_back = True
        assert self._made is not None
        return self._made

    def _decode(self) -> None:
        if self._made is not None:  # by another thread, while this one waited
            return
        if not self.has_ended:
            raise LifecycleError("There is no trace yet: start and stop the recording first.")
        if self._recorded.gpu and _native.gpu_is_wanted():  # else stop() has waited
            wait_for_devices()
        try:
            with memory_for("decoding what was recorded"):
                made = self._read_drained() or self._assembled(
                    _native.decode(self._window.id, path_prefixes())
                )
        except ValueError:
            if self._made is not None:  # a signal handler decoded in the middle of this
                return
            if self._window.process != os.getpid():
                raise LifecycleError(_NOT_INHERITED) from None
            raise
        # The first result counts if a signal handler or a finalizer decoded in the middle.
        if self._made is None:
            self._made = made

    @property
    def is_drained(self) -> bool:
        """Whether part of a long recording is only on disk; see ``save_drained``."""
        return self._saved_in is not None or (self.stream is not None and self.stream.is_drained)

    def save_drained(self, folder: Path, metadata: Mapping[str, Any]) -> Path:
        """Write the trace of a drained recording, with only a part of it in memory."""
        if self._saved_in is None and self.stream is not None and self.stream.path is not None:
            # Imported here: reading and writing files takes longer to import than all of opscope.
            from opscope.recording.recovered import save_long

            facts = ProgramFacts(cost_by_kind(self._recorded), metadata)
            self._saved_in = save_long(self.stream.path, folder, "", facts, self._with_own_state)
        return folder

    def _read_drained(self) -> TraceData | None:
        if not self.is_drained or self.stream is None or self.stream.path is None:
            return None
        from opscope.recording.recovered import recover
        from opscope.storage.read_part import load_part

        if self._saved_in is not None:
            return load_part(self._saved_in)
        return recover(self.stream.path)

    def _with_own_state(self, decoded: Decoded) -> Decoded:
        for listener in self._window.listeners:
            decoded = listener.added_to(decoded)
        return decoded

    def _assembled(self, window: DecodedWindow) -> TraceData:
        decoded = with_devices(read_decoded(window))
        if self.stream is not None and self.stream.path is not None:
            decoded = replace(decoded, no_room=NO_ROOM)
        decoded = self._with_own_state(decoded)
        trace = assemble_trace(decoded, self._recorded, cost_by_kind(self._recorded))
        return apply_confidentiality(trace)


class _Window:
    """A native window and its set-up.

    Holds no reference to its Recording, so that dropping the Recording ends it at once. Any method
    may be interrupted anywhere and called again.
    """

    def __init__(
        self,
        options: RecordingOptions,
        throughout: RecordingOptions,
        stream: Stream | None,
        max_memory_bytes: int | None,
    ) -> None:
        self.id = _native.reserve_window()
        self.process = os.getpid()
        self._max_memory_bytes = max_memory_bytes
        self._stream = stream
        self.listeners = listeners_of(options)
        self._options, self._throughout = options, throughout
        self._detail = next(one for one in self.listeners if isinstance(one, DetailStretches))

    def open(self) -> None:
        if (stream := self._stream) is not None:
            stream.begin(self.id, about_recording(stream, self._options, self._throughout))
        if self._throughout != self._options:
            self._detail.describe(asdict(self._throughout), bool(stream and stream.path))
        for listener in self.listeners:
            listener.prepare()
        limit_bytes = self._max_memory_bytes
        most_bytes = default_growth_bytes() if limit_bytes is None else limit_bytes
        wants, all_threads = native_wants(self._options), self._options.all_threads
        try:
            _native.open_window(wants, all_threads, self.id, most_growth_bytes=most_bytes)
        except RuntimeError as error:
            raise LifecycleError(
                f"Recording could not start: {error}. Stop the other profiler in this process, "
                "then try again."
            ) from error
        for listener in self.listeners:
            listener.begin()
        if self._throughout != self._options:
            self._detail.begins(None)

    def record_detail(self, on: bool, steps: int) -> None:
        wants = native_wants(self._options if on else self._throughout)
        if not on:
            self._detail.ends(time.time_ns(), steps)
        _native.collect([self.id], wants)
        if on:
            self._detail.begins(time.time_ns())

    def close(self) -> None:
        """Close the window, including one that opened partly."""
        for listener in reversed(self.listeners):
            listener.before_end()
        if self._stream is not None and not self._stream.of.saves:
            write_state(self.listeners)
        _native.close_window(self.id)
        for listener in reversed(self.listeners):
            listener.end()
        if self._stream is not None:
            if self._options.gpu:
                end_gpu_in_stream()
            self._stream.end(self.id)


def _report_fault() -> None:
    global _reported_fault
    fault = _native.fault()
    if fault and not _reported_fault:
        _reported_fault = True
        first_line = fault.splitlines()[0]
        notice(
            f"recording stopped early because of an internal error: {first_line}. The program "
            "was not affected; the recording until then is kept."
        )


def _report_fork(process: int) -> None:
    if process != os.getpid():
        notice(
            f"this process stops a recording of its parent process {process}; the recording has "
            "no events of this process. Start a profile in the child, or use `opscope run "
            "--children`."
        )


# A forked child has none of its parent's windows.
os.register_at_fork(after_in_child=_native.refresh_hooks)
