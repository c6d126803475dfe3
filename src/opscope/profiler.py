"""``profile``: torch.profiler's interface over opscope's recorder."""

from __future__ import annotations

import json
import threading
import uuid
import warnings
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from opscope.activities import (
    parse_activities,
    recording_options,
    records_cuda,
    supported_activities,
)
from opscope.annotate import record_function
from opscope.drop_in.event_list import EventList, make_event_list
from opscope.errors import LifecycleError, UsageError
from opscope.export.chrome_trace import write_chrome_trace
from opscope.export.memory_timeline import write_memory_timeline
from opscope.export.perfetto import write_perfetto
from opscope.observer import ExecutionTraceObserver
from opscope.recording.recorder import Recording
from opscope.report.notebook import overview_html
from opscope.report.page import write_report
from opscope.schedule import ProfilerAction, Schedule, record_every_step
from opscope.trace.concat import concat_traces
from opscope.trace.device_kinds import device_kinds, keep_device_kinds
from opscope.trace.trace import Trace

if TYPE_CHECKING:
    from torch.profiler import ProfilerActivity

_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile:
    """Records what a PyTorch program does, between ``start`` and ``stop`` or in a ``with`` block.

    Takes torch.profiler.profile's parameters; a script that uses that runs on this unchanged.
    Beyond it: an object can be started, stopped and exported any number of times, from any thread;
    ``stop`` returns at once whatever was recorded; every thread of the process is seen; no tensor
    is kept alive; ``trace`` gives the columns themselves.

    Args:
        activities: what to record; None for everything the machine has. An item may be a dict from
            activity to the names of the kinds of event to keep (``{CPU: ["CPU_OP"]}``,
            ``{CUDA: ["CONCURRENT_KERNEL", "GPU_MEMCPY"]}``).
        schedule: which steps to record (see :func:`opscope.schedule`); None records all.
        on_trace_ready: called with this object whenever a cycle's trace is ready.
        record_shapes: arguments of operators: shapes, strides, dtypes, scalars.
        profile_memory: allocations and frees.
        with_stack: Python and C calls.
        with_flops: estimate floating point operations; implies ``record_shapes``.
        with_modules: nn.Module and optimizer calls.
        experimental_config: torch's ``_ExperimentalConfig``; the switches that mean something here
            are honoured.
        execution_trace_observer: anything with ``start``, ``stop`` and ``cleanup``; runs for the
            same steps. opscope's own shows the same events, under the same ids.
        acc_events: keep the events of all cycles, not only of the last.
        use_cuda: deprecated, use ``activities``.
        custom_trace_id_callback: makes the id of each cycle's trace.
        post_processing_timeout_s: accepted; post-processing takes no time worth limiting.
        all_threads: record every thread of the process, not only the one that starts.
        record_outputs: results of operators and overload names too, all that an execution trace
            needs; implies ``record_shapes``.
        cuda_events: where CUPTI cannot be used, time annotations with CUDA events instead; such
            spans say so in their names, because they are not the times of kernels.

    Raises:
        UsageError: an option or activity makes no sense.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity | dict[ProfilerActivity, list[str]]] | None = None,
        schedule: Schedule | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        all_threads: bool = True,
        record_outputs: bool = False,
        cuda_events: bool = False,
    ) -> None:
        self.activities, self.activity_filters = parse_activities(activities, use_cuda)
        self.record_shapes = record_shapes or record_outputs
        self.record_outputs = record_outputs
        self.cuda_events = cuda_events
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.experimental_config = experimental_config
        if execution_trace_observer is None:
            execution_trace_observer = ExecutionTraceObserver.build_execution_trace_obs_from_env()
        self.execution_trace_observer = execution_trace_observer
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.schedule: Schedule = schedule or record_every_step
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.preset_metadata: dict[str, Any] = {}
        self.step_num = 0
        self.current_action = self._scheduled(0)
        self._options = recording_options(self, all_threads)
        self._recording: Recording | None = None
        self._finished: list[Recording] = []
        self._metadata: dict[str, Any] = {}
        self._trace_id: str | None = None
        self._step_span: record_function | None = None
        self._started = False
        self._view: tuple[Trace, EventList] | None = None
        # Re-entrant, because on_trace_ready may stop the profiler.
        self._lock = threading.RLock()

    # -- Life cycle ------------------------------------------------------------------------------

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        finally:
            if self.execution_trace_observer is not None:
                self.execution_trace_observer.cleanup()

    def start(self) -> None:
        """Begin; records at once unless the schedule says to wait. No effect while started.

        Raises:
            BridgeError: the recorder cannot be set up; the message says what to install.
        """
        with self._lock:
            if self._started:
                return
            self._move(ProfilerAction.NONE, self.current_action)
            self._started = True
            self._open_step_span()

    def stop(self) -> None:
        """End. Hands over the trace of an unfinished cycle. No effect while stopped."""
        with self._lock:
            if not self._started:
                return
            self._close_step_span()
            self._started = False
            self._move(self.current_action, None)

    def step(self) -> None:
        """Say that the next step begins; the schedule decides what to do in it."""
        with self._lock:
            self._close_step_span()
            action = self._scheduled(self.step_num + 1)
            previous, self.current_action = self.current_action, action
            self.step_num += 1
            if not self._started:
                return
            self._move(previous, action)
            self._open_step_span()

    def toggle_collection_dynamic(
        self, enable: bool, activities: Iterable[ProfilerActivity]
    ) -> None:
        """Leave out some activities for a while, without ending the recording.

        Args:
            enable: False leaves them out, True takes them up again.
            activities: those concerned.
        """
        concerned = set(activities)
        if self._recording is None:
            return
        if any(a.name == "CPU" for a in concerned):
            self._recording.pause(not enable)
        if any(a.name == "CUDA" for a in concerned):
            self._recording.pause_devices(not enable)

    def _scheduled(self, step: int) -> ProfilerAction:
        action = self.schedule(step)
        # Callables written for torch.profiler return its enum; the values are the same.
        try:
            known = ProfilerAction(getattr(action, "value", action))
        except ValueError as error:
            raise UsageError(
                f"The schedule returned {action!r} for step {step}. Return a ProfilerAction."
            ) from error
        if known is ProfilerAction.DEVICE_STOPPED:
            raise UsageError(
                "A schedule must not return DEVICE_STOPPED: the profiler sets that itself. Return "
                "NONE, WARMUP, RECORD or RECORD_AND_SAVE."
            )
        return known

    def _move(self, previous: ProfilerAction, action: ProfilerAction | None) -> None:
        """Go from one step's action to the next one's; None is the end of profiling."""
        if previous in _RECORDING:
            ends_cycle = previous is ProfilerAction.RECORD_AND_SAVE or action is None
            if ends_cycle or action not in _RECORDING:
                is_ready = self._stop_recording()
                if not ends_cycle:
                    warnings.warn(
                        f"Incorrect schedule: RECORD followed by {action.name}",  # type: ignore[union-attr]
                        stacklevel=4,
                    )
                elif is_ready and self.on_trace_ready is not None:
                    self.on_trace_ready(self)
        if previous is ProfilerAction.WARMUP and action is ProfilerAction.NONE:
            warnings.warn("Incorrect schedule: WARMUP followed by NONE", stacklevel=4)
        if action is ProfilerAction.WARMUP:
            Recording(self._options).prepare()
        if action in _RECORDING and self._recording is None:
            self._start_recording()

    def _start_recording(self) -> None:
        observer = self.execution_trace_observer
        shared = self._recording_shared_with(observer)
        recording = shared or Recording(self._options)
        recording.prepare()
        callback = self.custom_trace_id_callback
        self._trace_id = callback() if callback is not None else uuid.uuid4().hex.upper()
        self._metadata = {}
        if not self.acc_events:
            self._finished = []
            self._view = None
        if observer is not None and shared is None:
            observer.start()
        recording.start()
        self._recording = recording
        if observer is not None and shared is not None:
            observer.start()

    def _recording_shared_with(self, observer: Any) -> Recording | None:
        """One recording for both this and the observer, so that both show the same events."""
        if not isinstance(observer, ExecutionTraceObserver):
            return None
        return observer.shared_recording(self._options)

    def _stop_recording(self) -> bool:
        """Stop, if recording; whether there is a trace to hand over."""
        recording, self._recording = self._recording, None
        if recording is None:
            return False
        recording.stop()
        self._finished.append(recording)
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.stop()
        return True

    def _open_step_span(self) -> None:
        if self.record_steps:
            self._step_span = record_function(f"ProfilerStep#{self.step_num}")
            self._step_span.__enter__()

    def _close_step_span(self) -> None:
        if self._step_span is not None:
            self._step_span.__exit__(None, None, None)
            self._step_span = None

    # -- Results ---------------------------------------------------------------------------------

    @property
    def trace(self) -> Trace:
        """The trace of the last cycle, as columns.

        Raises:
            LifecycleError: nothing has been recorded yet.
        """
        if not self._finished:
            raise LifecycleError(
                "Nothing has been recorded yet. Run the program between start() and stop() or in a "
                "`with` block; with a schedule, call step() until an active step has ended."
            )
        return self._view_of(self._finished[-1]).with_metadata(self._user_metadata())

    def _view_of(self, recording: Recording) -> Trace:
        kinds = device_kinds(self.activity_filters)
        trace = recording.trace
        return trace if kinds is None else keep_device_kinds(trace, kinds)

    def events(self) -> EventList:
        """The events, as torch.profiler's FunctionEvent objects, made when they are looked at.

        Raises:
            LifecycleError: nothing has been recorded yet.
        """
        last = self.trace
        if self._view is None or self._view[0] is not self._finished[-1].trace:
            accumulated = [self._view_of(recording) for recording in self._finished[:-1]]
            trace = concat_traces([*accumulated, last]) if self.acc_events else last
            events = make_event_list(
                trace,
                use_device=self.use_device,
                profile_memory=self.profile_memory,
                with_flops=self.with_flops,
                with_stack=self.with_stack,
            )
            self._view = (self._finished[-1].trace, events)
        return self._view[1]

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool | None = None,
    ) -> EventList:
        """Averages by operator name and, where asked for, input shapes, stack, overload.

        Args:
            group_by_input_shape: needs ``record_shapes``.
            group_by_stack_n: the innermost n frames; needs ``with_stack``.
            group_by_overload_name: needs overload names (``capture_overload_names``).
            include_python_functions: Python calls too, which need ``with_stack``; by default as the
                torch that is installed does: until 2.13.

        Raises:
            LifecycleError: nothing has been recorded yet.
        """
        return self.events().key_averages(
            group_by_input_shape,
            group_by_stack_n,
            group_by_overload_name,
            include_python_functions,
        )

    def export_chrome_trace(self, path: str | Path, use_python_export: bool = False) -> None:
        """Write the last cycle as Chrome JSON, as often as wanted.

        Args:
            path: ends in ``.json`` or ``.json.gz``.
            use_python_export: accepted; there is one writer, and it is fast.

        Raises:
            LifecycleError: nothing has been recorded yet.
            UsageError: the path cannot be written.
        """
        write_chrome_trace(self.trace, path)

    def export_perfetto(self, path: str | Path) -> None:
        """Write the last cycle in Perfetto's own format, a tenth of the size of Chrome JSON.

        Args:
            path: ends in ``.pftrace`` or ``.pftrace.gz``; open it with ui.perfetto.dev.

        Raises:
            LifecycleError: nothing has been recorded yet.
            UsageError: the path cannot be written.
        """
        write_perfetto(self.trace, path)

    def export_report(self, path: str | Path, title: str = "") -> None:
        """Write the last cycle as an HTML page: one file, no network, open it from disk.

        Args:
            path: ends in ``.html``.
            title: shown at the top; the program's name by default.

        Raises:
            LifecycleError: nothing has been recorded yet.
            UsageError: the path cannot be written.
        """
        write_report(self.trace, path, title=title)

    def _repr_html_(self) -> str:
        """What a notebook shows: the top of the averages, once something has been recorded."""
        return overview_html(self.trace) if self._finished else escape(repr(self))

    def export_stacks(self, path: str | Path, metric: str = "self_cpu_time_total") -> None:
        """Write collapsed stacks (``frame;frame;frame value``), one line per stack.

        Args:
            path: of the text file.
            metric: ``self_cpu_time_total`` or ``self_cuda_time_total``, in microseconds.

        Raises:
            UsageError: unknown metric, or the path cannot be written.
        """
        self.events().export_stacks(str(path), metric)

    def export_memory_timeline(self, path: str | Path, device: str | None = None) -> None:
        """Write what each category of memory held over time, on one device.

        Args:
            path: ``.json`` or ``.json.gz``: ``[times, sizes by category]``; ``.raw.json.gz``: every
                action; ``.html``: a page; ``.png``: a picture.
            device: such as ``cpu`` or ``cuda:0``; None is the first accelerator that was used or,
                without one, the CPU.

        Raises:
            LifecycleError: nothing has been recorded yet.
            UsageError: this profiler does not record what it takes, the device was not used, or the
                path cannot be written.
            MissingDependencyError: a ``.png`` is drawn with matplotlib.
        """
        needed = {
            "record_shapes=True": self._options.shapes,
            "profile_memory=True": self._options.memory,
            "with_stack=True": self._options.stack or self._options.modules,
        }
        missing = ", ".join(flag for flag, is_set in needed.items() if not is_set)
        if missing:
            raise UsageError(
                f"{missing} required for memory profiling. Pass this to profile() and record again."
            )
        write_memory_timeline(self.trace, path, device)

    # -- Metadata --------------------------------------------------------------------------------

    def add_metadata(self, key: str, value: str) -> None:
        """Keep a text with the trace being recorded, or just recorded."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Keep a JSON value with the trace.

        Raises:
            UsageError: ``value`` is not JSON.
        """
        self._metadata[key] = _parse_json(key, value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Keep a JSON value with every trace to come.

        Raises:
            UsageError: ``value`` is not JSON.
        """
        self.preset_metadata[key] = _parse_json(key, value)

    def get_trace_id(self) -> str | None:
        """The id of the current or last cycle's trace; None before the first."""
        return self._trace_id

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Use ``callback`` for the ids of later cycles."""
        self.custom_trace_id_callback = callback

    @property
    def use_device(self) -> str | None:
        """``cuda`` or another device recorded beside the CPU; None without one."""
        names = {activity.name for activity in self.activities}
        if not records_cuda(self.activities):
            names.discard("CUDA")
        return next((d for d in ("CUDA", "XPU", "MTIA", "HPU") if d in names), "").lower() or None

    def _user_metadata(self) -> dict[str, Any]:
        flags = ("profile_memory", "with_stack", "record_shapes", "with_modules", "with_flops")
        return {
            "trace_id": self._trace_id,
            **{flag: True for flag in flags if getattr(self, flag)},
            "user": {**self.preset_metadata, **self._metadata},
        }


def _parse_json(key: str, value: str) -> Any:
    try:
        return json.loads(value)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"The metadata {key!r} is not JSON ({error}). Pass a JSON text such as '[1, 2]' or "
            "'\"text\"', or use add_metadata for plain text."
        ) from error


__all__ = ["profile", "supported_activities"]
