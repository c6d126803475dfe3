"""The list of what :func:`opscope.drop_in.install` replaces, and by what."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter_ns
from typing import Any

from opscope.drop_in import event_metadata, event_parts, execution_trace, extra_fields, session
from opscope.drop_in.event_list import EventList
from opscope.drop_in.formatted_times import FormattedTimesMixin
from opscope.drop_in.function_event import FunctionEvent
from opscope.drop_in.function_event_avg import FunctionEventAvg
from opscope.drop_in.install import Replacement, importers
from opscope.drop_in.kineto_event import KinetoEvent, ProfilerResult
from opscope.drop_in.profiler_event import ProfilerEvent
from opscope.observer import ExecutionTraceObserver
from opscope.trace.concat import concat_traces

_PROFILER = {
    "_ExtraFields_TorchOp": extra_fields.ExtraFieldsTorchOp,
    "_ExtraFields_Allocation": extra_fields.ExtraFieldsAllocation,
    "_ExtraFields_OutOfMemory": extra_fields.ExtraFieldsOutOfMemory,
    "_ExtraFields_PyCall": extra_fields.ExtraFieldsPyCall,
    "_ExtraFields_PyCCall": extra_fields.ExtraFieldsPyCCall,
    "_ExtraFields_Kineto": extra_fields.ExtraFieldsKineto,
    "_TensorMetadata": extra_fields.TensorMetadata,
    "_NNModuleInfo": extra_fields.NNModuleInfo,
    "_OptimizerInfo": extra_fields.OptimizerInfo,
    "_PyFrameState": extra_fields.PyFrameState,
    "_ProfilerEvent": ProfilerEvent,
    "ProfilerConfig": session.ProfilerConfig,
    "_add_execution_trace_observer": execution_trace.add_observer,
    "_remove_execution_trace_observer": execution_trace.remove_observer,
    "_enable_execution_trace_observer": execution_trace.enable_observer,
    "_disable_execution_trace_observer": execution_trace.disable_observer,
}
_BACKEND = {
    "_prepare_profiler": session.prepare_profiler,
    "_enable_profiler": session.enable_profiler,
    "_disable_profiler": session.disable_profiler,
    "_toggle_collection_dynamic": session.toggle_collection_dynamic,
    "_add_metadata_json": session.add_metadata_json,
    "_kineto_step": session.kineto_step,
    "_is_kineto_stopped": session.is_kineto_stopped,
    "_ProfilerResult": ProfilerResult,
    "_KinetoEvent": KinetoEvent,
}
_EVENTS = {
    "EventList": EventList,
    "FunctionEvent": FunctionEvent,
    "FunctionEventAvg": FunctionEventAvg,
    "FormattedTimesMixin": FormattedTimesMixin,
    "Interval": event_parts.Interval,
    "Kernel": event_parts.Kernel,
    "EventMetadata": event_metadata.EventMetadata,
}


def replacements() -> Iterator[Replacement]:
    """Owner, name and new value of everything that is replaced.

    Every module that imported one of these names has it replaced too.
    """
    import torch.autograd.profiler as autograd_profiler
    import torch.autograd.profiler_util as profiler_util
    import torch.profiler
    from torch._C import _autograd, _profiler

    for home, values in (
        (_autograd, _BACKEND),
        (_profiler, _PROFILER),
        (profiler_util, _EVENTS),
    ):
        for name, value in values.items():
            original = getattr(home, name, None)
            if original is None:
                continue
            for module in importers(original, name):
                yield module, name, value
    for module in importers(torch.profiler.ExecutionTraceObserver, "ExecutionTraceObserver"):
        yield module, "ExecutionTraceObserver", ExecutionTraceObserver
    yield autograd_profiler.profile, "_ensure_function_events", _ensure_function_events
    yield autograd_profiler.profile, "_parse_kineto_results", _parse_kineto_results
    yield autograd_profiler.profile, "export_chrome_trace", _export_chrome_trace
    yield torch.profiler.profiler._KinetoProfile, "export_chrome_trace", _export_last_cycle


def _ensure_function_events(self: Any) -> None:
    """In place of torch's: the events as a lazy view, not as objects."""
    if self.experimental_config.trace_only:
        raise RuntimeError(
            "events() is not available when trace_only=True in ExperimentalConfig. Use "
            "export_chrome_trace() instead."
        )
    if self._function_events is not None:
        return
    self._needs_processing = False
    started_ns = perf_counter_ns()
    result = self.kineto_results
    previous = getattr(self, "_opscope_accumulated", None)
    if result is not None and self.acc_events:
        trace = result.trace if previous is None else concat_traces([previous, result.trace])
        self._opscope_accumulated = trace
        result = ProfilerResult(lambda: trace, result._options)
    trace_ready_ns = perf_counter_ns()
    self._function_events = EventList() if result is None else result.function_events
    self._old_function_events = None
    count = len(self._function_events)
    self._stats.parse_kineto_call_duration_us = _microseconds(started_ns, trace_ready_ns)
    self._stats.function_events_build_tree_call_duration_us = _microseconds(
        trace_ready_ns, perf_counter_ns()
    )
    self._stats.number_of_events = count


def _microseconds(start_ns: int, end_ns: int) -> int:
    """Rounded up: a step that ran took time, however little."""
    return -((start_ns - end_ns) // 1000)


def _parse_kineto_results(self: Any, result: Any, timeout_s: float | None = None) -> list[Any]:
    """In place of torch's, which makes an object per event: the events of a result."""
    return list(result.function_events)


def _export_chrome_trace(
    self: Any, path: str, metadata: dict[str, str] | None = None, use_python_export: bool = False
) -> None:
    """In place of torch's: one native writer, usable any number of times."""
    self.kineto_results.save(path)


def _export_last_cycle(self: Any, path: str, use_python_export: bool = False) -> None:
    """In place of torch's, which compresses in Python: the writer knows ``.gz``."""
    if self.profiler is None:
        raise AssertionError("Profiler must be initialized before exporting chrome trace")
    self.profiler.kineto_results.save(path)
