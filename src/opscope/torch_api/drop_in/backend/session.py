"""The C++ functions that torch's Python profilers call, on opscope's recorder.

torch.profiler and torch.autograd.profiler are Python over a few functions of
``torch._C._autograd``: prepare, enable, disable, toggle. Replacing only these keeps every class,
signature and import of torch.profiler, also in programs that imported them earlier.

A session is a profile. A second one at the same time is an error if it is one in torch.
"""

from __future__ import annotations

import json
import sys
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import opscope._native as _native
from opscope.columns.device_kinds import keep_device_kinds
from opscope.columns.names import Names
from opscope.columns.trace_data import TraceData
from opscope.launch.hidden_modules import with_own_modules
from opscope.recording.recorder import Recording
from opscope.torch_api.activities import ChosenActivities
from opscope.torch_api.activity_configs import activities_of_extensions, warn_of_not_recorded
from opscope.torch_api.drop_in.backend import torchs_own
from opscope.torch_api.drop_in.backend.config import (
    ProfilerConfig,
    kinds_of_cpu_events,
    kinds_of_device_activity,
    switches_off,
    warn_of_unsupported,
)
from opscope.torch_api.drop_in.backend.result import ProfilerResult
from opscope.torch_api.event.parts import EXPOSES_METADATA
from opscope.torch_api.event_list.event_list import import_views
from opscope.torch_api.event_list.torch_terms import in_torch_terms
from opscope.torch_api.settings import FLAGS

_ALREADY = "Profiler is already enabled on this thread"


@dataclass
class _Session:
    config: ProfilerConfig  # as given by torch
    recording: Recording | None = None  # None if nothing ran
    user_metadata: dict[str, Any] = field(default_factory=dict)
    device_kinds: frozenset[str] | None = None  # of device activity to keep; None for all
    around: _Session | None = None  # the session around this one, which continues after it
    owner: weakref.ref[Any] | None = None  # torch's object that began it, if known
    ended: bool = False  # recording has ended; the trace may still be read

    def stop(self) -> None:
        """Stop recording; safe to interrupt and to call again."""
        if self.recording is not None:
            self.recording.stop()
        self.ended = True
        _native.show_profile(False)  # also for the enclosing session, like torch

    def load(self) -> TraceData:
        if self.recording is None:
            return TraceData({}, Names.from_strings([]), {"start_ns": 0})
        settings = self.config.settings
        own = {"trace_id": self.config.trace_id, **settings.metadata(), **switches_off()}
        own["user"] = {key: value for key, value in self.user_metadata.items() if key not in FLAGS}
        if settings.switches.get("expose_kineto_event_metadata"):
            own[EXPOSES_METADATA] = True
        trace = self.recording.trace
        if self.device_kinds is not None:
            trace = keep_device_kinds(trace, self.device_kinds)
        trace = trace.with_metadata(own)
        return in_torch_terms(trace, bool(settings.switches.get("adjust_profiler_step")))


_section = _native.Section()
_current: _Session | None = None
# From prepare_profiler(): kinds of CPU events and of device activity.
_kinds: frozenset[str] | None = None
_device_kinds: frozenset[str] | None = None


def prepare_profiler(
    config: ProfilerConfig,
    activities: set[Any],
    activity_filter: Mapping[Any, set[str]] | None = None,
    profiler_extensions: Mapping[str, str] | None = None,
) -> None:
    """Do slow work before ``enable_profiler``; warns of data that cannot be recorded."""
    global _kinds, _device_kinds
    with_own_modules(import_views)()
    _kinds = kinds_of_cpu_events(activity_filter or {})
    _device_kinds = kinds_of_device_activity(activity_filter or {})
    warn_of_unsupported(config.settings.switches)
    warn_of_not_recorded(activities_of_extensions(profiler_extensions or {}), stacklevel=4)
    _recording(config, activities).prepare()


def enable_profiler(
    config: ProfilerConfig, activities: set[Any], scopes: Any = frozenset()
) -> None:
    """Start recording, or let torch push ranges to another tool.

    Raises:
        RuntimeError: a profiler runs already; torch's message.
    """
    if config.state.name in torchs_own.RANGES:
        _refuse_during_profile()
        torchs_own.enable(config, activities, scopes)
        return
    recording = _recording(config, activities, _kinds, _device_kinds)
    _begin(_Session(config, recording, device_kinds=_device_kinds), recording.start)


def enable_profiler_legacy(config: ProfilerConfig) -> None:
    """Let torch's own legacy profiler record."""
    _refuse_during_profile()
    torchs_own.enable_legacy(config)


def _refuse_during_profile() -> None:
    if _current is not None and not _current.ended:
        raise RuntimeError(_ALREADY)


def _recording(
    config: ProfilerConfig,
    activities: set[Any],
    cpu_kinds: frozenset[str] | None = None,
    device_kinds: frozenset[str] | None = None,
) -> Recording:
    names = {activity.name for activity in activities}
    chosen = ChosenActivities(
        cpu="CPU" in names, cuda="CUDA" in names, cpu_kinds=cpu_kinds, device_kinds=device_kinds
    )
    return Recording(config.settings.recording_options(chosen))


def _begin(session: _Session, start: Callable[[], object]) -> None:
    session.owner = _weak_reference(sys._getframe(2).f_locals.get("self"))

    def begin() -> None:
        global _current
        if torchs_own.runs():
            raise RuntimeError(_ALREADY)
        if _current is not None and not _current.ended:
            if not _allows_nesting():
                raise RuntimeError(_ALREADY)
            session.around = _current
        _current = session
        start()
        _native.show_profile(True)  # for code that asks torch, until the session stops

    def undo_begin() -> None:
        global _current
        if _current is session:
            session.stop()
            _current = session.around

    _section.run(begin, undo_begin)


def _allows_nesting() -> bool:
    """Whether this torch permits a profile inside a profile, which then loses all its data.

    torch 2.6 does, and torch from 2.13 on.
    """
    return _torch_is_at_least(2, 13) or not _torch_is_at_least(2, 7)


def _torch_is_at_least(*version: int) -> bool:
    torch = sys.modules["torch"]
    return bool(torch.torch_version.TorchVersion(torch.__version__) >= version)


def _weak_reference(owner: Any) -> weakref.ref[Any] | None:
    try:
        return None if owner is None else weakref.ref(owner, _end_without_owner)
    except TypeError:
        return None


def _end_without_owner(owner: weakref.ref[Any]) -> None:
    """Stop the session of a ``torch.profiler.profile`` that was interrupted and deleted."""
    global _current
    if _current is not None and _current.owner is owner:
        _current.stop()
        _current = _current.around


def disable_profiler() -> Any:
    """Stop, and return the recording. If nothing runs, behave as this torch does.

    Raises:
        RuntimeError: nothing runs; torch's message.
    """
    if torchs_own.runs():
        return torchs_own.disable()
    if _current is None and _torch_is_at_least(2, 13):
        return _empty_result()
    session = _end()
    return ProfilerResult(session.load, session.config.settings.list_options())


def _empty_result() -> ProfilerResult:
    """The result of torch from 2.13 on if nothing runs; torch logs a warning then."""
    from torch._C._profiler import ProfilerState, _ExperimentalConfig

    off = (False, False, False, False, False)
    config = ProfilerConfig(ProfilerState.KINETO, *off, _ExperimentalConfig())
    return ProfilerResult(_Session(config).load, config.settings.list_options())


def _end() -> _Session:
    ended: list[_Session] = []

    def end() -> _Session:
        global _current
        if _current is None:
            raise RuntimeError("Can't disable Kineto profiler when it's not running")
        ended.append(_current)
        _current.stop()
        _current = _current.around
        return ended[0]

    def undo_end() -> None:
        # Interrupted: disable can be called again, or a new session started.
        global _current
        if ended:
            ended[0].stop()
            _current = ended[0]

    return _section.run(end, undo_end)


def abandon() -> bool:
    """Stop all sessions and drop their recordings; False if none ran."""
    global _current
    was_running = False
    while _current is not None:
        was_running |= not _current.ended
        _current.stop()
        _current = _current.around
    if was_running:  # torch sets its flag when a profile stops, which this profile never does
        sys.modules["torch.autograd.profiler"]._run_on_profiler_stop()
    return was_running


def toggle_collection_dynamic(enable: bool, activities: set[Any]) -> None:
    """Pause or resume activities."""
    session = _current
    if session is None or session.recording is None:
        return
    if any(activity.name == "CPU" for activity in activities):
        session.recording.pause(not enable)
    if any(activity.name == "CUDA" for activity in activities):
        session.recording.pause_devices(not enable)


def add_metadata_json(key: str, value: str) -> None:
    """Store a JSON value with the running session."""
    session = _current
    if session is not None:
        session.user_metadata[key] = json.loads(value)


def kineto_step() -> None:
    """No effect: torch counts a step for a daemon that opscope serves itself."""


def is_kineto_stopped() -> bool:
    """Always False: opscope drops and counts events instead of ending early."""
    return False
