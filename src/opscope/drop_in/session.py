"""The functions torch's Python profilers call into C++ for, on opscope's recorder.

torch.profiler and torch.autograd.profiler are Python over a few functions of
``torch._C._autograd``: prepare, enable, disable, toggle. Standing in for those few leaves every
class, signature and import of torch.profiler as it is, also in programs that imported them earlier.
There is one session at a time: a profile, a legacy profile, or ranges for another tool.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opscope.activities import experimental_switches
from opscope.drop_in import ranges, switches
from opscope.drop_in.config import (
    ProfilerConfig,
    kinds_of_cpu_events,
    kinds_of_device_activity,
    warn_of_unsupported,
)
from opscope.drop_in.event_source import EXPOSES_METADATA
from opscope.drop_in.kineto_event import ProfilerResult
from opscope.drop_in.legacy import LegacyRecord, legacy_records
from opscope.drop_in.torch_terms import in_torch_terms
from opscope.process_lock import process_lock
from opscope.recording.recorder import Recording
from opscope.trace.device_kinds import keep_device_kinds
from opscope.trace.names import Names
from opscope.trace.trace import Trace

LEGACY = "LEGACY"
_FLAGS = {
    "profile_memory": "profile_memory",
    "with_stack": "with_stack",
    "record_shapes": "report_input_shapes",
    "with_modules": "with_modules",
    "with_flops": "with_flops",
}
"""What torch's files say of a recording: their name, and that in the configuration."""


@dataclass
class _Session:
    """What is under way.

    Attributes:
        config: as given by torch.
        kind: ``KINETO``, or the member of ActiveProfilerType that tells it from that.
        recording: None for ranges, which nothing records.
        kept: the user's metadata, and whether switches asked for something to be left out.
        device_kinds: what a filter leaves of device activity; None for all.
    """

    config: ProfilerConfig
    kind: str
    recording: Recording | None = None
    kept: dict[str, Any] = field(default_factory=dict)
    device_kinds: frozenset[str] | None = None

    def load(self) -> Trace:
        """The trace, with what torch's files say about a recording."""
        if self.recording is None:
            return Trace({}, Names.from_strings([]), {"start_ns": 0})
        config = self.config
        flags = {flag: True for flag, name in _FLAGS.items() if getattr(config, name)}
        user = {key: value for key, value in self.kept.items() if key not in _FLAGS}
        own = {"trace_id": config.trace_id, **flags, **switches.metadata(), "user": user}
        asked = experimental_switches(config.experimental_config)
        if asked.get("expose_kineto_event_metadata"):
            own[EXPOSES_METADATA] = True
        trace = self.recording.trace
        if self.device_kinds is not None:
            trace = keep_device_kinds(trace, self.device_kinds)
        trace = trace.with_metadata(own)
        return in_torch_terms(trace, bool(asked.get("adjust_profiler_step")))


_lock = process_lock()
_current: _Session | None = None
# Said when preparing: kinds of CPU events and of device activity.
_kinds: frozenset[str] | None = None
_device_kinds: frozenset[str] | None = None


def prepare_profiler(
    config: ProfilerConfig,
    activities: set[Any],
    activity_filter: Mapping[Any, set[str]] | None = None,
) -> None:
    """Do what is slow, ahead of ``enable_profiler``; warns of what cannot be recorded.

    Raises:
        RuntimeError: the filter names an unknown kind of event.
    """
    global _kinds, _device_kinds
    _kinds = kinds_of_cpu_events(activity_filter or {})
    _device_kinds = kinds_of_device_activity(activity_filter or {})
    warn_of_unsupported(config.experimental_config)
    Recording(config.options(activities)).prepare()


def enable_profiler(
    config: ProfilerConfig, activities: set[Any], scopes: Any = frozenset()
) -> None:
    """Start recording, or pushing ranges to another tool.

    Raises:
        RuntimeError: something runs already, in torch's words.
    """
    if config.state.name in ranges.KINDS:
        kind = config.state.name
        begin = ranges.begin_nvtx if kind == "NVTX" else ranges.begin_itt
        _begin(_Session(config, kind), lambda: begin(config.report_input_shapes))
        return
    recording = Recording(config.options(activities, _kinds))
    session = _Session(config, "KINETO", recording, device_kinds=_device_kinds)
    _begin(session, recording.start)


def enable_profiler_legacy(config: ProfilerConfig) -> None:
    """Start recording for ``torch.autograd.profiler_legacy``.

    Raises:
        RuntimeError: something runs already, in torch's words.
    """
    from torch.profiler import ProfilerActivity

    recording = Recording(config.options({ProfilerActivity.CPU}))
    _begin(_Session(config, LEGACY, recording), recording.start)


def _begin(session: _Session, start: Callable[[], object]) -> None:
    global _current
    with _lock:
        if _current is not None:
            raise RuntimeError("Profiler is already enabled on this thread")
        _current = session
    try:
        start()
    except BaseException:
        _current = None
        raise


def disable_profiler() -> ProfilerResult:
    """Stop, and hand over what was recorded.

    Raises:
        RuntimeError: nothing runs, in torch's words.
    """
    session = _end("Can't disable Kineto profiler when it's not running")
    return ProfilerResult(session.load, session.config.list_options())


def disable_profiler_legacy(options: Any = None) -> list[list[LegacyRecord]]:
    """Stop, and hand over what was recorded as records of the legacy profiler, by thread.

    Raises:
        RuntimeError: nothing runs.
    """
    session = _end("Can't disable the legacy profiler when it's not running")
    return legacy_records(session.load(), session.config.with_flops)


def _end(complaint: str) -> _Session:
    global _current
    with _lock:
        session, _current = _current, None
    if session is None:
        raise RuntimeError(complaint)
    if session.recording is None:
        ranges.end()
    else:
        session.recording.stop()
    return session


def abandon() -> bool:
    """Stop whatever runs, and throw away what was recorded; False if nothing ran."""
    if _current is None:
        return False
    _end("stopped meanwhile")
    return True


def active_kind() -> str:
    """What runs, if it is not a profile: ``LEGACY``, ``NVTX`` or ``ITT``; else empty."""
    session = _current
    return "" if session is None or session.kind == "KINETO" else session.kind


def toggle_collection_dynamic(enable: bool, activities: set[Any]) -> None:
    """Leave activities out for a while."""
    session = _current
    if session is None or session.recording is None:
        return
    if any(activity.name == "CPU" for activity in activities):
        session.recording.pause(not enable)
    if any(activity.name == "CUDA" for activity in activities):
        session.recording.pause_devices(not enable)


def add_metadata_json(key: str, value: str) -> None:
    """Keep a JSON value with the recording that is running."""
    session = _current
    if session is not None:
        session.kept[key] = json.loads(value)


def is_kineto_stopped() -> bool:
    """Whether device recording ended early: it does not here, it drops and counts."""
    return False
