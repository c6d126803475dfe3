"""Life cycle of a profile: start, steps of a schedule, stop.

A signal handler may raise an exception at any instruction in here. Afterwards the profile either
runs and can be stopped, or does not run; recorded data stays in both cases. For that, every fact is
stored once: only the last cycle's Recording knows whether a recording runs, and it is listed before
it starts. Each change runs in a native section that undoes or completes an interrupted change. The
user's ``on_trace_ready`` is called outside of sections, because it may take long.
"""

from __future__ import annotations

import itertools
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import opscope._native as _native
from opscope.columns.names import STEP_PREFIX
from opscope.errors import UsageError
from opscope.recording.recorder import Recording
from opscope.recording.sources import RecordingOptions
from opscope.recording.streams.stream import Stream
from opscope.torch_api.annotate import record_function
from opscope.torch_api.schedule import ProfilerAction, Schedule
from opscope.torch_api.steps import announce_step

_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


@dataclass(frozen=True)
class Cycle:
    """One recording of a profile, and facts for its trace."""

    recording: Recording
    trace_id: str
    metadata: dict[str, Any] = field(default_factory=dict)


class Cycles:
    """Life cycle of a profile; ``profile`` derives from this class."""

    schedule: Schedule
    record_steps: bool
    acc_events: bool
    on_trace_ready: Callable[..., Any] | None
    execution_trace_observer: Any
    custom_trace_id_callback: Callable[[], str] | None
    step_num: int
    current_action: ProfilerAction
    _options: RecordingOptions
    _max_memory_bytes: int | None = None
    _detail: RecordingOptions | None = None

    def __init__(self) -> None:
        self.step_num = 0
        self.current_action = self._scheduled(0)
        self._section = _native.Section()
        self._cycles: tuple[Cycle, ...] = ()
        self._started = False
        self._before_start: tuple[Cycle, ...] | None = None  # cycles before a start in progress
        self._is_ending = False  # the recording must end, also after an interruption
        self._ready: Iterator[bool] = iter(())  # yields True once if a cycle is ready
        self._step_span: record_function | None = None

    @property
    def _finished(self) -> list[Cycle]:
        """Cycles with traces, oldest first."""
        return [cycle for cycle in self._cycles if cycle.recording.has_ended]

    @property
    def _recording(self) -> Recording | None:
        last = self._cycles[-1].recording if self._cycles else None
        return last if last is not None and last.running else None

    def start(self) -> None:
        """Start; records at once unless the schedule waits. No effect while started.

        Raises:
            BridgeError: the recorder cannot be set up; the message says what to install.
        """
        if self.current_action is not ProfilerAction.NONE:
            Recording(self._options).prepare()  # outside the section, because it may take seconds
        self._section.run(self._begin, self._undo_begin)

    def stop(self) -> None:
        """Stop, and call ``on_trace_ready`` for an unfinished cycle. No effect while stopped."""
        self._section.run(self._end, self._end)
        self._call_trace_ready()

    def step(self) -> None:
        """Begin the next step; the schedule decides its action."""
        announce_step()
        previous = self._section.run(self._leave_step, self._end_recording)
        self._call_trace_ready()
        _warn_of(previous, self.current_action)
        self._section.run(self._enter_step, self._undo_enter)

    def _cancel(self) -> None:
        """Stop without calling ``on_trace_ready``."""
        self._section.run(self._end, self._end)
        self._ready = iter(())

    def _begin(self) -> None:
        if self._started:
            return
        self._before_start = self._cycles
        self._started = True
        self._enter_step()
        self._before_start = None

    def _undo_begin(self) -> None:
        if self._before_start is None:
            return
        self._close_step_span()
        self._started = False
        self._is_ending = self._recording is not None
        self._end_recording()
        self._undo_enter()
        self._cycles = self._before_start
        self._before_start = None

    def _end(self) -> None:
        if self._started or self._recording is not None:
            self._plan_end(self.current_action, None)
        self._close_step_span()
        self._started = False
        self._end_recording()

    def _leave_step(self) -> ProfilerAction:
        """End the step, and the recording if the step was its last; returns the step's action."""
        self._close_step_span()
        previous, action = self.current_action, self._scheduled(self.step_num + 1)
        if self._started:
            self._plan_end(previous, action)
        # One call: an interruption changes both or neither.
        vars(self).update(current_action=action, step_num=self.step_num + 1)
        self._end_recording()
        return previous if self._started else action

    def _enter_step(self) -> None:
        if not self._started:  # on_trace_ready stopped it
            return
        if self.current_action is ProfilerAction.WARMUP:
            Recording(self._options).prepare()
        if self.current_action in _RECORDING and self._recording is None:
            self._start_recording()
        if self.record_steps and self._step_span is None:
            self._step_span = record_function(f"{STEP_PREFIX}{self.step_num}")
            self._step_span.__enter__()

    def _undo_enter(self) -> None:
        """Stop the observer if its recording does not run."""
        if self._recording is None and self.execution_trace_observer is not None:
            self.execution_trace_observer.stop()

    def _plan_end(self, previous: ProfilerAction, action: ProfilerAction | None) -> None:
        """Mark the recording as ending unless ``action`` continues it; None ends profiling."""
        if self._recording is None:
            return
        is_last = previous is ProfilerAction.RECORD_AND_SAVE or action is None
        if is_last or action not in _RECORDING:
            if is_last:
                self._ready = iter((True,))
            self._is_ending = True

    def _end_recording(self) -> None:
        if self._is_ending:
            self._cycles[-1].recording.stop()
            if self.execution_trace_observer is not None:
                self.execution_trace_observer.stop()
            self._is_ending = False

    def _call_trace_ready(self) -> None:
        if self.on_trace_ready is not None:
            # One native call takes the flag and calls the callback, so a signal handler cannot make
            # the callback run twice or not at all.
            next(
                map(self.on_trace_ready, itertools.compress(itertools.repeat(self), self._ready)), 0
            )

    def _start_recording(self) -> None:
        observer = self.execution_trace_observer
        stream = self._next_stream()
        recording = Recording(
            self._options,
            stream=stream,
            max_memory_bytes=self._max_memory_bytes,
            detail=self._detail,
        )
        recording.prepare()
        callback = self.custom_trace_id_callback
        cycle = Cycle(recording, callback() if callback is not None else uuid.uuid4().hex.upper())
        if stream is not None:
            stream.metadata = self._user_metadata(cycle)
        earlier = self._finished
        self._cycles = (*earlier, cycle)
        if observer is not None:
            observer.start()
        recording.start()
        if not self.acc_events:
            self._cycles = (cycle,)

    def _next_stream(self) -> Stream | None:
        """File for the next recording; None for memory only."""
        return None

    def _user_metadata(self, cycle: Cycle) -> dict[str, Any]:
        """The user's metadata and id of a cycle's trace."""
        return {"trace_id": cycle.trace_id, "user": cycle.metadata}

    def _close_step_span(self) -> None:
        if self._step_span is not None:
            self._step_span.__exit__(None, None, None)  # idempotent
            self._step_span = None

    def _scheduled(self, step: int) -> ProfilerAction:
        action = self.schedule(step)
        # Callables written for torch.profiler return its enum; the values are the same.
        try:
            result = ProfilerAction(getattr(action, "value", action))
        except ValueError as error:
            raise UsageError(
                f"The schedule returned {action!r} for step {step}. Return a ProfilerAction."
            ) from error
        if result is ProfilerAction.DEVICE_STOPPED:
            raise UsageError(
                "A schedule must not return DEVICE_STOPPED: the profiler sets that itself. Return "
                "NONE, WARMUP, RECORD or RECORD_AND_SAVE."
            )
        return result


def _warn_of(previous: ProfilerAction, action: ProfilerAction) -> None:
    not_recording = (ProfilerAction.NONE, ProfilerAction.WARMUP)
    if previous is ProfilerAction.RECORD and action in not_recording:
        warnings.warn(f"Incorrect schedule: RECORD followed by {action.name}", stacklevel=4)
    if previous is ProfilerAction.WARMUP and action is ProfilerAction.NONE:
        warnings.warn("Incorrect schedule: WARMUP followed by NONE", stacklevel=4)
