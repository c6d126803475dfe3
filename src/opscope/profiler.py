"""``profile``: torch.profiler's interface over opscope's recorder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from opscope import _native
from opscope.activities import chosen_activities, parse_activities, records_cuda
from opscope.cycles import Cycle, Cycles
from opscope.drop_in.event_list.event_list import EventList, make_event_list
from opscope.errors import LifecycleError, UsageError
from opscope.experimental_switches import experimental_switches
from opscope.export.chrome.writer import write_chrome_trace
from opscope.export.memory_timeline import write_memory_timeline
from opscope.export.perfetto import write_perfetto
from opscope.observer import ExecutionTraceObserver
from opscope.report.notebook import overview_html
from opscope.report.page import write_report
from opscope.schedule import Schedule, record_every_step
from opscope.settings import ProfileSettings
from opscope.trace.concat import concat_traces
from opscope.trace.device_kinds import keep_device_kinds
from opscope.trace.trace import Trace

if TYPE_CHECKING:
    from torch.profiler import ProfilerActivity


class profile(Cycles):
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
        with_asyncio: runs of asyncio tasks: what each does between two awaits.
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

    record_shapes: bool
    profile_memory: bool
    with_stack: bool
    with_flops: bool
    with_modules: bool

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
        with_asyncio: bool = False,
    ) -> None:
        self.activities, self.activity_filters = parse_activities(activities, use_cuda)
        self._settings = ProfileSettings.of(
            {
                "record_shapes": record_shapes or record_outputs,
                "record_outputs": record_outputs,
                "profile_memory": profile_memory,
                "with_stack": with_stack,
                "with_flops": with_flops,
                "with_modules": with_modules,
                "cuda_events": cuda_events,
                "with_asyncio": with_asyncio,
            },
            all_threads=all_threads,
            switches=experimental_switches(experimental_config),
        )
        vars(self).update(self._settings.flags)
        self.record_outputs = record_outputs
        self.cuda_events = cuda_events
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
        self._chosen = chosen_activities(self.activities, self.activity_filters)
        self._options = self._settings.recording_options(self._chosen)
        self._view: tuple[Trace, EventList] | None = None
        super().__init__()

    # -- Life cycle ------------------------------------------------------------------------------

    def _enter(self) -> profile:
        self.start()
        return self

    def _exit(
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

    # Native, so that a signal handler's exception leaves no recording running when the `with` block
    # was not entered, or has been left.
    __enter__ = _native.method(_enter, Cycles._cancel)
    __exit__ = _native.method(_exit, Cycles._stop)

    def start(self) -> None:
        """Begin; records at once unless the schedule says to wait. No effect while started.

        Raises:
            BridgeError: the recorder cannot be set up; the message says what to install.
        """
        self._start()

    def stop(self) -> None:
        """End. Hands over the trace of an unfinished cycle. No effect while stopped."""
        self._stop()

    def step(self) -> None:
        """Say that the next step begins; the schedule decides what to do in it."""
        self._step()

    def toggle_collection_dynamic(
        self, enable: bool, activities: Iterable[ProfilerActivity]
    ) -> None:
        """Leave out some activities for a while, without ending the recording.

        Args:
            enable: False leaves them out, True takes them up again.
            activities: those concerned.
        """
        concerned = set(activities)
        recording = self._recording
        if recording is None:
            return
        if any(a.name == "CPU" for a in concerned):
            recording.pause(not enable)
        if any(a.name == "CUDA" for a in concerned):
            recording.pause_devices(not enable)

    # -- Results ---------------------------------------------------------------------------------

    @property
    def trace(self) -> Trace:
        """The trace of the last cycle, as columns.

        Raises:
            LifecycleError: nothing has been recorded yet.
        """
        finished = self._finished
        if not finished:
            raise LifecycleError(
                "Nothing has been recorded yet. Run the program between start() and stop() or in a "
                "`with` block; with a schedule, call step() until an active step has ended."
            )
        return self._view_of(finished[-1]).with_metadata(self._user_metadata(finished[-1]))

    def _view_of(self, cycle: Cycle) -> Trace:
        kinds = self._chosen.device_kinds
        trace = cycle.recording.trace
        return trace if kinds is None else keep_device_kinds(trace, kinds)

    def events(self) -> EventList:
        """The events, as torch.profiler's FunctionEvent objects, made when they are looked at.

        Raises:
            LifecycleError: nothing has been recorded yet.
        """
        last, finished, view = self.trace, self._finished, self._view
        recorded = finished[-1].recording.trace
        if view is None or view[0] is not recorded:
            accumulated = [self._view_of(cycle) for cycle in finished[:-1]]
            trace = concat_traces([*accumulated, last]) if self.acc_events else last
            events = make_event_list(
                trace,
                use_device=self.use_device,
                **self._settings.list_options(),
            )
            self._view = view = (recorded, events)
        return view[1]

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
        self._metadata()[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Keep a JSON value with the trace.

        Raises:
            UsageError: ``value`` is not JSON.
        """
        self._metadata()[key] = _parse_json(key, value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Keep a JSON value with every trace to come.

        Raises:
            UsageError: ``value`` is not JSON.
        """
        self.preset_metadata[key] = _parse_json(key, value)

    def get_trace_id(self) -> str | None:
        """The id of the current or last cycle's trace; None before the first."""
        return self._cycles[-1].trace_id if self._cycles else None

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

    def _metadata(self) -> dict[str, Any]:
        """The user's, of the current or last cycle."""
        return self._cycles[-1].metadata if self._cycles else {}

    def _user_metadata(self, cycle: Cycle) -> dict[str, Any]:
        return {
            "trace_id": cycle.trace_id,
            **self._settings.metadata(),
            "user": {**self.preset_metadata, **cycle.metadata},
        }


def _parse_json(key: str, value: str) -> Any:
    try:
        return json.loads(value)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"The metadata {key!r} is not JSON ({error}). Pass a JSON text such as '[1, 2]' or "
            "'\"text\"', or use add_metadata for plain text."
        ) from error
