"""The names that :func:`opscope.drop_in.install` replaces, and their replacements."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from opscope.recording.bridge import bridge
from opscope.torch_api.drop_in import anti_patterns, methods
from opscope.torch_api.drop_in.backend import config, observer_functions, session, torchs_own
from opscope.torch_api.drop_in.backend.config import ProfilerConfig
from opscope.torch_api.drop_in.backend.result import KinetoEvent, ProfilerResult, TraceActivity
from opscope.torch_api.drop_in.memory_profile import memory_profile
from opscope.torch_api.event import parts
from opscope.torch_api.event.formatted_times import FormattedTimesMixin
from opscope.torch_api.event.function_event import FunctionEvent
from opscope.torch_api.event.function_event_avg import FunctionEventAvg
from opscope.torch_api.event_list.event_list import EventList
from opscope.torch_api.event_tree import profiler_event
from opscope.torch_api.event_tree.profiler_event import ProfilerEvent
from opscope.torch_api.observer import ExecutionTraceObserver

_PROFILER = {
    "_ExtraFields_TorchOp": profiler_event.ExtraFieldsTorchOp,
    "_ExtraFields_Allocation": profiler_event.ExtraFieldsAllocation,
    "_ExtraFields_OutOfMemory": profiler_event.ExtraFieldsOutOfMemory,
    "_ExtraFields_PyCall": profiler_event.ExtraFieldsPyCall,
    "_ExtraFields_PyCCall": profiler_event.ExtraFieldsPyCCall,
    "_ExtraFields_Kineto": profiler_event.ExtraFieldsKineto,
    "_TensorMetadata": profiler_event.TensorMetadata,
    "_NNModuleInfo": profiler_event.NNModuleInfo,
    "_OptimizerInfo": profiler_event.OptimizerInfo,
    "_PyFrameState": profiler_event.PyFrameState,
    "_ProfilerEvent": ProfilerEvent,
    "ProfilerConfig": ProfilerConfig,
    "_set_fwd_bwd_enabled_val": config.set_forward_backward_enabled,
    "_set_record_concrete_inputs_enabled_val": config.set_concrete_inputs_enabled,
    "_add_execution_trace_observer": observer_functions.add_observer,
    "_remove_execution_trace_observer": observer_functions.remove_observer,
    "_enable_execution_trace_observer": observer_functions.enable_observer,
    "_disable_execution_trace_observer": observer_functions.disable_observer,
}
_BACKEND = {
    "_prepare_profiler": session.prepare_profiler,
    "_enable_profiler": session.enable_profiler,
    "_disable_profiler": session.disable_profiler,
    "_enable_profiler_legacy": session.enable_profiler_legacy,
    "_toggle_collection_dynamic": session.toggle_collection_dynamic,
    "_add_metadata_json": session.add_metadata_json,
    "_kineto_step": session.kineto_step,
    "_is_kineto_stopped": session.is_kineto_stopped,
    "_ProfilerResult": ProfilerResult,
    "_KinetoEvent": KinetoEvent,
    "_ITraceActivity": TraceActivity,
}
_EVENTS = {
    "EventList": EventList,
    "FunctionEvent": FunctionEvent,
    "FunctionEventAvg": FunctionEventAvg,
    "FormattedTimesMixin": FormattedTimesMixin,
    "Interval": parts.Interval,
    "Kernel": parts.Kernel,
    "EventMetadata": parts.EventMetadata,
}


@dataclass(frozen=True)
class Replacements:
    """torch's names and their replacements."""

    methods: tuple[tuple[type, str, Any], ...]  # methods: class, name and function
    originals: dict[int, tuple[Any, Any]]  # by ``id()`` of the original: original and replacement
    news: dict[int, tuple[Any, Any]]  # by ``id()`` of the replacement: replacement and original
    modules: dict[str, ModuleType]  # modules that this torch lacks, by name


def find_replacements() -> Replacements:
    """Replacements for the installed torch, without names that it lacks."""
    bridge.load()
    import torch.autograd.profiler_util as profiler_util
    import torch.profiler
    from torch._C import _autograd, _profiler

    pairs = [
        (getattr(owner, name), new)
        for owner, values in (
            (_autograd, _BACKEND),
            (_profiler, _PROFILER),
            (profiler_util, _EVENTS),
        )
        for name, new in values.items()
        if hasattr(owner, name)
    ]
    torchs_own.keep(_autograd, _profiler.ProfilerConfig)
    if importlib.util.find_spec("torch.profiler._chrome_trace_export") is not None:
        exporter = importlib.import_module("torch.profiler._chrome_trace_export")
        pairs.append((exporter.export_chrome_trace, methods.export_result))
    news = {id(new): (new, original) for original, new in pairs}
    # uninstall() does not restore it: a program may have imported it from opscope.
    pairs.append((torch.profiler.ExecutionTraceObserver, ExecutionTraceObserver))
    originals = {id(original): (original, new) for original, new in pairs}
    return Replacements(_methods(), originals, news, _modules())


def _modules() -> dict[str, ModuleType]:
    name = "torch.profiler._pattern_matcher"
    loaded = sys.modules.get(name)
    if loaded is None:
        is_torchs = importlib.util.find_spec(name) is not None
    else:
        is_torchs = loaded is not anti_patterns
    return {} if is_torchs else {name: anti_patterns}


def _methods() -> tuple[tuple[type, str, Any], ...]:
    from torch.autograd.profiler import profile
    from torch.profiler.profiler import _KinetoProfile

    return (
        (profile, "_ensure_function_events", methods.ensure_function_events),
        (profile, "_parse_kineto_results", methods.parse_kineto_results),
        (profile, "export_chrome_trace", methods.export_chrome_trace),
        (_KinetoProfile, "export_chrome_trace", methods.export_last_cycle),
        (_KinetoProfile, "_memory_profile", memory_profile),
        (
            _KinetoProfile,
            "prepare_trace",
            methods.prepare_trace_of_ours(vars(_KinetoProfile)["prepare_trace"]),
        ),
    )
