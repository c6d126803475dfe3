"""``profile``: torch.profiler's interface over opscope's recorder."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import opscope._native as _native
from opscope.columns.concat import concat_traces
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.export.chrome.writer import write_chrome_trace
from opscope.export.memory_timeline import write_memory_timeline
from opscope.export.perfetto import write_perfetto
from opscope.findings.summary import Summary, summary_of
from opscope.recording.facts.coexistence import announce_profile
from opscope.report.page import write_report
from opscope.torch_api.cycles import Cycles
from opscope.torch_api.event_list.event_list import EventList, import_views, make_event_list
from opscope.torch_api.profile_recording import ProfileRecording

if TYPE_CHECKING:
    from torch.profiler import ProfilerActivity

# Methods of Trace use these. They are imported before any recording: later the program may have
# changed sys.path, and a child forked during an import would wait forever.
for _stage in ("timeline.tree.node", "analysis.memory.peak", "findings.find", "export.all_formats"):
    importlib.import_module(f"opscope.{_stage}")
import_views()


class profile(ProfileRecording):
    """Records a PyTorch program between ``start`` and ``stop`` or in a ``with`` block.

    Takes torch.profiler.profile's parameters; scripts that use torch.profiler run unchanged. In
    addition: start, stop and export any number of times, from any thread; ``stop`` returns at once;
    all threads of the process are recorded; no tensor stays alive; ``trace`` has columns.

    Args:
        activities: activities to record; None for all that the machine supports. An item may be a
            dict from activity to the kinds of event to keep (``{CPU: ["CPU_OP"]}``, ``{CUDA:
            ["CONCURRENT_KERNEL", "GPU_MEMCPY"]}``), or to a ``ProfilerActivityConfig``, torch's or
            that of :mod:`opscope.torch_api.activity_configs`.
        schedule: which steps to record (see :func:`opscope.schedule`); None records all.
        on_trace_ready: called with this object when the trace of a cycle is ready.
        record_shapes: arguments of operators: shapes, strides, dtypes, scalars.
        profile_memory: allocations and frees.
        with_stack: Python and C calls.
        with_flops: estimate floating point operations; implies ``record_shapes``.
        with_modules: nn.Module and optimizer calls.
        with_asyncio: runs of asyncio tasks between two awaits.
        with_functions: Python calls without C functions, at a fraction of ``with_stack``'s cost.
        with_own_functions: calls of the program's own functions, with the lowest overhead; of
            installed libraries only functions that wait or import and, before Python 3.12, those
            that the program calls directly. All functions if a concurrent recording records them.
        experimental_config: torch's ``_ExperimentalConfig``, or a dict of its switches by name,
            from any torch version; supported switches have an effect.
        execution_trace_observer: any object with ``start``, ``stop`` and ``cleanup``; runs for the
            same steps. opscope's own observer has the same events with the same ids.
        acc_events: keep the events of all cycles, not only of the last.
        use_cuda: deprecated, use ``activities``.
        custom_trace_id_callback: returns the id of each cycle's trace.
        post_processing_timeout_s: ignored: there is no long post-processing.
        all_threads: record all threads of the process, not only the starting one.
        record_outputs: also results of operators and overload names, as execution traces need;
            implies ``record_shapes``.
        source_lines: with ``with_stack``, store the text of the program's own lines with calls, for
            readers of the trace; False stores only file and line number.
        stream_to: a folder for the recording while it runs, so that it survives any end of the
            process; ``opscope doctor --recover`` and :func:`opscope.load` can read it. At the end
            the trace is saved there, or with a schedule in ``cycle-1`` and so on.
        max_disk: maximum size of the file of one recording in bytes, or a text such as ``"2GiB"``;
            by default half of the free space.
        max_memory: maximum memory of the recording, without that of other recordings; by default
            half of the free memory. Events beyond it are dropped and counted. Concurrent recordings
            share the largest limit.
        keeper: start a watchdog process that writes the trace if this process ends first.

    Raises:
        UsageError: an option or activity is invalid.
    """

    _view: tuple[TraceData, EventList] | None = None

    # -- Life cycle ------------------------------------------------------------------------------

    def _start_recording(self) -> None:
        super()._start_recording()
        announce_profile(self._recording)

    def _enter(self) -> profile:
        self.start()
        return self

    def _exit(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            if self.execution_trace_observer is not None:
                self.execution_trace_observer.cleanup()

    # Native: no exception in a signal handler leaves a recording running outside the block.
    __enter__ = _native.method(_enter, Cycles._cancel)
    __exit__ = _native.method(_exit, Cycles.stop)

    def toggle_collection_dynamic(
        self, enable: bool, activities: Iterable[ProfilerActivity]
    ) -> None:
        """Pause or resume some activities during the recording.

        Args:
            enable: False pauses them, True resumes them.
            activities: the activities to pause or resume.
        """
        chosen = set(activities)
        recording = self._recording
        if recording is None:
            return
        if any(a.name == "CPU" for a in chosen):
            recording.pause(not enable)
        if any(a.name == "CUDA" for a in chosen):
            recording.pause_devices(not enable)

    # -- Results ---------------------------------------------------------------------------------

    def events(self) -> EventList:
        """The events, as torch.profiler's FunctionEvent objects, created on access.

        Raises:
            LifecycleError: there is no recording yet.
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
        """Averages by operator name and, optionally, input shapes, stack, overload.

        Args:
            group_by_input_shape: needs ``record_shapes``.
            group_by_stack_n: the innermost n frames; needs ``with_stack``.
            group_by_overload_name: needs overload names (``capture_overload_names``).
            include_python_functions: Python calls too, which need ``with_stack``; by default as the
                installed torch does: until 2.13.

        Raises:
            LifecycleError: there is no recording yet.
        """
        return self.events().key_averages(
            group_by_input_shape,
            group_by_stack_n,
            group_by_overload_name,
            include_python_functions,
        )

    def export_chrome_trace(self, path: str | Path, use_python_export: bool = False) -> None:
        """Write the last cycle as Chrome JSON; can be called repeatedly.

        Args:
            path: ends in ``.json`` or ``.json.gz``.
            use_python_export: ignored.

        Raises:
            LifecycleError: there is no recording yet.
            UsageError: the path cannot be written.
        """
        write_chrome_trace(self.trace, path)

    def export_perfetto(self, path: str | Path) -> None:
        """Write the last cycle in Perfetto's own format, a tenth of the size of Chrome JSON.

        Args:
            path: ends in ``.pftrace`` or ``.pftrace.gz``; open it with ui.perfetto.dev.

        Raises:
            LifecycleError: there is no recording yet.
            UsageError: the path cannot be written.
        """
        write_perfetto(self.trace, path)

    def export_report(self, path: str | Path, title: str = "", period: str = "steady") -> None:
        """Write the last cycle as an HTML page: one file, no network, open it from disk.

        Args:
            path: ends in ``.html``.
            title: shown at the top; the program's name by default.
            period: the part for tables and findings: ``steady`` (the recording without its
                start-up), ``start-up`` or ``all``.

        Raises:
            LifecycleError: there is no recording yet.
            UsageError: the path cannot be written, or there is no such period.
        """
        write_report(self.trace, path, title=title, period=period)

    def report(self, path: str | Path = "opscope-report.html", period: str = "steady") -> Path:
        """:meth:`export_report` to ``path``; returns the path."""
        self.export_report(path, period=period)
        return Path(path)

    def summary(self, period: str = "steady") -> Summary:
        """The verdict and the names with most self time, for ``print`` and notebooks.

        Raises:
            LifecycleError: there is no recording yet.
            UsageError: there is no such period.
        """
        return summary_of(self.trace, period)

    def _repr_html_(self) -> str:
        return summary_of(self.trace)._repr_html_() if self._finished else escape(repr(self))

    def export_stacks(self, path: str | Path, metric: str = "self_cpu_time_total") -> None:
        """Write collapsed stacks (``frame;frame;frame value``), one line per stack.

        Args:
            path: path of the text file.
            metric: ``self_cpu_time_total`` or ``self_cuda_time_total``, in microseconds.

        Raises:
            UsageError: unknown metric, or the path cannot be written.
        """
        self.events().export_stacks(str(path), metric)

    def export_memory_timeline(self, path: str | Path, device: str | None = None) -> None:
        """Write the memory of each category over time, for one device.

        Args:
            path: ``.json`` or ``.json.gz``: ``[times, sizes by category]``; ``.raw.json.gz``: every
                action; ``.html``: a page; ``.png``: a picture.
            device: such as ``cuda:0``; by default the first used accelerator, else the CPU.

        Raises:
            LifecycleError: there is no recording yet.
            UsageError: an option is missing, the device was not used, or the path is not writable.
            MissingDependencyError: a ``.png`` needs matplotlib.
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
        """Store a text in the metadata of the current or last trace."""
        self._metadata()[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Store a JSON value in the metadata of the trace.

        Raises:
            UsageError: ``value`` is not JSON.
        """
        self._metadata()[key] = _parse_json(key, value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Store a JSON value in the metadata of all later traces.

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


def _parse_json(key: str, value: str) -> Any:
    try:
        return json.loads(value)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"The metadata {key!r} is not JSON ({error}). Pass a JSON text such as '[1, 2]' or "
            "'\"text\"', or use add_metadata for plain text."
        ) from error
