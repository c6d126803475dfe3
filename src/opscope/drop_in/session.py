"""The functions torch's Python profiler calls into C++ for, on opscope's recorder.

torch.profiler and torch.autograd.profiler are Python over a few functions of
``torch._C._autograd``: prepare, enable, disable, toggle. Standing in for those few leaves every
class, signature and import of torch.profiler as it is, also in programs that imported them earlier.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Any

from opscope.activities import experimental_switches
from opscope.drop_in.kineto_event import ProfilerResult
from opscope.options import RecordingOptions
from opscope.recording.recorder import Recording
from opscope.trace.trace import Trace

_lock = threading.Lock()


@dataclass(frozen=True)
class ProfilerConfig:
    """torch's ``ProfilerConfig``, with readable fields."""

    state: Any
    report_input_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    experimental_config: Any = None
    trace_id: str = ""

    def options(self, activities: set[Any]) -> RecordingOptions:
        """What the recorder is asked for."""
        switches = experimental_switches(self.experimental_config)
        on_cpu = any(activity.name == "CPU" for activity in activities)
        return RecordingOptions(
            operators=on_cpu,
            annotations=on_cpu,
            shapes=self.report_input_shapes or self.with_flops,
            memory=self.profile_memory,
            stack=self.with_stack,
            modules=self.with_modules and not self.with_stack,
            overloads=bool(switches.get("capture_overload_names")),
            gc_pauses=bool(switches.get("record_python_gc_info")),
            # As torch: Python calls only of threads that exist when recording starts.
            new_threads=bool(switches.get("profile_all_threads")),
        )

    def list_options(self) -> dict[str, Any]:
        """How events are listed; see ``make_event_list``."""
        return {
            "profile_memory": self.profile_memory,
            "with_flops": self.with_flops,
            "with_stack": self.with_stack,
        }


@dataclass
class _Session:
    config: ProfilerConfig
    recording: Recording
    user_metadata: dict[str, Any] = field(default_factory=dict)

    def load(self) -> Trace:
        """The trace, with what torch's files say about a recording."""
        config = self.config
        flags = {
            "profile_memory": config.profile_memory,
            "with_stack": config.with_stack,
            "record_shapes": config.report_input_shapes,
            "with_modules": config.with_modules,
            "with_flops": config.with_flops,
        }
        set_flags = {name: True for name, is_set in flags.items() if is_set}
        user = {k: v for k, v in self.user_metadata.items() if k not in flags}
        return self.recording.trace.with_metadata(
            {"trace_id": config.trace_id, **set_flags, "user": user}
        )


_current: _Session | None = None


def prepare_profiler(
    config: ProfilerConfig, activities: set[Any], activity_filter: Any = None
) -> None:
    """Do what is slow, ahead of ``enable_profiler``."""
    Recording(config.options(activities)).prepare()


def enable_profiler(
    config: ProfilerConfig, activities: set[Any], scopes: Any = frozenset()
) -> None:
    """Start recording.

    Raises:
        RuntimeError: a profiler is running already, in torch's words.
    """
    global _current
    with _lock:
        if _current is not None:
            raise RuntimeError("Profiler is already enabled on this thread")
        session = _Session(config, Recording(config.options(activities)))
        _current = session
    try:
        session.recording.start()
    except BaseException:
        _current = None
        raise


def disable_profiler() -> ProfilerResult:
    """Stop recording and hand over what was recorded.

    Raises:
        RuntimeError: no profiler is running, in torch's words.
    """
    global _current
    with _lock:
        session, _current = _current, None
    if session is None:
        raise RuntimeError("Can't disable Kineto profiler when it's not running")
    session.recording.stop()
    return ProfilerResult(session.load, session.config.list_options())


def toggle_collection_dynamic(enable: bool, activities: set[Any]) -> None:
    """Leave activities out for a while."""
    session = _current
    if session is not None and any(activity.name == "CPU" for activity in activities):
        session.recording.pause(not enable)


def add_metadata_json(key: str, value: str) -> None:
    """Keep a JSON value with the recording that is running."""
    session = _current
    if session is not None:
        session.user_metadata[key] = json.loads(value)


_steps = 0


def kineto_step() -> None:
    """Count a training step; there is no daemon to tell about it."""
    global _steps
    _steps += 1


def is_kineto_stopped() -> bool:
    """Whether device recording ended early: it does not here, it drops and counts."""
    return False
