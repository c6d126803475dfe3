"""Base of ``profile``: options, life cycle, trace.

``opscope run`` needs only this module, without the views of ``profile``.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, ParamSpec

from opscope.api.trace import Trace
from opscope.base.address import refuse_address
from opscope.base.notice import notice
from opscope.base.quantity_text import count_bytes
from opscope.columns.device_kinds import keep_device_kinds
from opscope.columns.table import nearest
from opscope.errors import LifecycleError, OpscopeError, UsageError
from opscope.recording.facts.program_facts import ProgramFacts, facts_of_program
from opscope.recording.streams.stream import Stream, Streams
from opscope.torch_api.activities import chosen_activities, parse_activities, records_cuda
from opscope.torch_api.activity_configs import wants_synchronisations
from opscope.torch_api.cycles import Cycle, Cycles
from opscope.torch_api.observer import ExecutionTraceObserver
from opscope.torch_api.schedule import Schedule, record_every_step
from opscope.torch_api.settings import ProfileSettings, experimental_switches

if TYPE_CHECKING:
    from torch.profiler import ProfilerActivity

Parameters = ParamSpec("Parameters")


def _suggesting(init: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """An ``__init__`` that suggests the intended name for an unknown keyword."""
    parameters = getattr(init, "__kwdefaults__", None) or {}  # all have defaults

    @functools.wraps(init)
    def checked(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> None:
        for name in keywords:
            if name not in parameters:
                similar = nearest(name, parameters)
                suggestion = f" Did you mean {similar!r}?" if similar else ""
                raise TypeError(f"profile() has no argument {name!r}.{suggestion}")
        init(*arguments, **keywords)

    return checked


class ProfileRecording(Cycles):
    """Records between ``start`` and ``stop``; the arguments are those of ``profile``."""

    record_shapes: bool
    profile_memory: bool
    with_stack: bool
    with_flops: bool
    with_modules: bool

    @_suggesting
    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity | dict[ProfilerActivity, Any]] | None = None,
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
        with_asyncio: bool = False,
        with_functions: bool = False,
        with_own_functions: bool = False,
        source_lines: bool = True,
        stream_to: str | os.PathLike[str] | None = None,
        max_disk: str | int | None = None,
        max_memory: str | int | None = None,
        keeper: bool = True,
    ) -> None:
        for name, value in (("schedule", schedule), ("on_trace_ready", on_trace_ready)):
            if value is not None and not callable(value):
                raise UsageError(_not_callable(name, value))
        parsed = parse_activities(activities, use_cuda)
        self.activities, self.activity_filters = parsed.activities, parsed.filters
        switches = experimental_switches(experimental_config)
        if wants_synchronisations(parsed.configs):
            switches["enable_cuda_sync_events"] = True
        self._settings = ProfileSettings.of(
            {
                "record_shapes": record_shapes or record_outputs,
                "record_outputs": record_outputs,
                "profile_memory": profile_memory,
                "with_stack": with_stack,
                "with_flops": with_flops,
                "with_modules": with_modules,
                "with_asyncio": with_asyncio,
                "with_functions": with_functions,
                "with_own_functions": with_own_functions,
            },
            all_threads=all_threads,
            source_lines=source_lines,
            switches=switches,
        )
        vars(self).update(self._settings.flags)
        self.record_outputs = record_outputs
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
        self.trace_facts: dict[str, Any] = {}
        self._max_memory_bytes = _size(max_memory, "max_memory=")
        self._streams: Streams | None = None
        if stream_to is not None:
            refuse_address(stream_to)
            self.stream_into(
                Streams(
                    Path(os.path.abspath(stream_to)),
                    schedule is not None,
                    _size(max_disk, "max_disk="),
                    keeper,
                )
            )
        self._chosen = chosen_activities(self.activities, self.activity_filters)
        self._options = self._settings.recording_options(self._chosen)
        super().__init__()

    def stream_into(self, streams: Streams | None) -> None:
        """Write later recordings to files while they run."""
        self._streams = streams

    def detail_with(self, settings: ProfileSettings) -> None:
        """Start recordings in this detail, until :meth:`record_detail` ends it."""
        self._detail = settings.recording_options(self._chosen)

    def record_detail(self, on: bool, steps: int = 0) -> None:
        """Begin or end a detailed interval of ``steps`` steps; no effect without a recording."""
        if self._recording is not None:
            self._recording.record_detail(on, steps)

    def __repr__(self) -> str:
        on = [name for name, is_set in self._settings.flags.items() if is_set]
        options = f"; {', '.join(on)}" if on else ""
        finished = len(self._finished)
        if self._recording is not None:
            state = "recording"
        elif finished:
            state = f"{finished} recorded, see .trace" if finished > 1 else "recorded, see .trace"
        else:
            state = "started, not recording" if self._started else "not started"
        return f"<opscope.profile: {state}{options}>"

    @property
    def trace(self) -> Trace:
        """The trace of the last cycle, as columns.

        Raises:
            LifecycleError: nothing has been recorded yet.
        """
        finished = self._finished
        if not finished:
            raise LifecycleError(
                "There is no recording yet. Run the program between start() and stop() or in a "
                "`with` block; with a schedule, call step() until an active step has ended."
            )
        return self._view_of(finished[-1]).with_metadata(self._user_metadata(finished[-1]))

    def _call_trace_ready(self) -> None:
        if self._streams is not None and self._streams.saves:
            try:
                self.save_streamed()
            except (OpscopeError, OSError, ImportError, MemoryError) as error:
                # An error must not end the program in the middle of its work.
                folder = quote(str(self._streams.folder))
                at_end = "when this program ends, or " if self._streams.keeper else ""
                notice(
                    f"the trace was not written: {error} The recording is kept in its file. Its "
                    f"trace is written {at_end}by: opscope doctor --recover {folder}"
                )
        super()._call_trace_ready()

    def save_streamed(self) -> None:
        """Write the traces of finished recordings to their stream folders."""
        for cycle in self._finished:
            self._save_streamed(cycle)

    def _save_streamed(self, cycle: Cycle) -> None:
        stream = cycle.recording.stream
        if stream is None or stream.is_discarded or stream.is_parents:
            return
        if cycle.recording.is_drained:
            cycle.recording.save_drained(stream.folder, self._user_metadata(cycle))
        else:
            trace = self._view_of(cycle).with_metadata(self._user_metadata(cycle))
            trace.save(stream.folder, rank=stream.of.rank, process=stream.of.process)
        stream.discard()

    @property
    def has_stream(self) -> bool:
        """Whether a finished recording is still in a file."""
        streams = [cycle.recording.stream for cycle in self._finished]
        return any(s is not None and s.path is not None and s.path.exists() for s in streams)

    @property
    def stream_file(self) -> Path | None:
        """The file with all of the last recording, for another process to make its trace."""
        stream = self._finished[-1].recording.stream if self._finished else None
        if stream is None or stream.is_parents or stream.path is None:
            return None
        return stream.path if stream.path.exists() else None

    def leave_to_its_file(self) -> ProgramFacts:
        """Release the last recording; returns facts for the process that makes its trace."""
        recording = self._finished[-1].recording
        # This is first, because windows for measuring costs would search all records.
        recording.leave_to_its_file()
        facts = facts_of_program(recording.recorded)
        return replace(facts, metadata={**facts.metadata, **self.trace_facts})

    def discard_streams(self) -> None:
        """Remove the files of finished recordings, whose traces are elsewhere."""
        for cycle in self._finished:
            if cycle.recording.stream is not None:
                cycle.recording.stream.discard()

    def _next_stream(self) -> Stream | None:
        return None if self._streams is None else self._streams.next()

    def _view_of(self, cycle: Cycle) -> Trace:
        kinds = self._chosen.device_kinds
        trace = cycle.recording.trace
        return Trace.of(trace if kinds is None else keep_device_kinds(trace, kinds))

    @property
    def use_device(self) -> str | None:
        """``cuda`` or another device recorded beside the CPU; None without one."""
        names = {activity.name for activity in self.activities}
        if not records_cuda(self.activities):
            names.discard("CUDA")
        return next((d for d in ("CUDA", "XPU", "MTIA", "HPU") if d in names), "").lower() or None

    def _metadata(self) -> dict[str, Any]:
        """The user's metadata of the current or last cycle."""
        return self._cycles[-1].metadata if self._cycles else {}

    def _user_metadata(self, cycle: Cycle) -> dict[str, Any]:
        return {
            **self.trace_facts,
            "trace_id": cycle.trace_id,
            **self._settings.metadata(),
            "user": {**self.preset_metadata, **cycle.metadata},
        }


def _size(value: str | int | None, name: str) -> int | None:
    return None if value is None else count_bytes(value, name)


def _not_callable(name: str, value: object) -> str:
    example = {
        "schedule": "a function from the number of a step to a ProfilerAction, for example "
        "opscope.schedule(wait=1, warmup=1, active=3)",
        "on_trace_ready": "a function that takes the profile, for example "
        "opscope.tensorboard_trace_handler('runs')",
    }
    return f"{name}={value!r} cannot be called. Pass {example[name]}."
