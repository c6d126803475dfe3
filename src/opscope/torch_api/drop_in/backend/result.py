"""``_ProfilerResult`` and its events: a recording, as torch's profiler passes it to Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import opscope._native as _native
from opscope.base.cached_property import cached_property
from opscope.columns.trace_data import TraceData
from opscope.torch_api.event.function_event import FunctionEvent
from opscope.torch_api.event_list.event_list import EventList, make_event_list
from opscope.torch_api.event_tree.profiler_event import ProfilerEvent

if TYPE_CHECKING:
    from opscope.torch_api.event_tree.profiler_tree import ProfilerTree

_NOT_LINKABLE = ("python_function", "cpu_instant_event", "")


def _attribute(attribute: str, default: Callable[[], Any] | None = None) -> Callable[[Any], Any]:
    """A method that returns an attribute of the event, or ``default()`` if it is false."""

    def method(self: KinetoEvent) -> Any:
        value = getattr(self._event, attribute)
        return value if value or default is None else default()

    return method


def _delegated(name: str) -> Callable[[Any], Any]:
    """A method that calls the method ``name`` of the ``_KinetoEvent``."""
    return lambda self: getattr(self._kineto, name)()


class KinetoEvent:
    """One event with the methods of torch's ``_KinetoEvent``. Times are Unix nanoseconds."""

    def __init__(self, event: FunctionEvent, origin_ns: int, first_id: int) -> None:
        self._event = event
        self._origin_ns = origin_ns
        self._first_id = first_id

    overload_name = _attribute("overload_name")
    device_type = _attribute("device_type")
    device_index = _attribute("device_index")
    device_resource_id = _attribute("device_resource_id")  # thread or stream
    start_thread_id = _attribute("thread")
    end_thread_id = _attribute("thread")
    fwd_thread_id = _attribute("fwd_thread", int)
    sequence_nr = _attribute("sequence_nr")
    scope = _attribute("scope")
    shapes = _attribute("input_shapes")
    concrete_inputs = _attribute("concrete_inputs")
    kwinputs = _attribute("kwinputs")
    stack = _attribute("stack")
    flops = _attribute("flops", int)
    is_async = _attribute("is_async")
    is_user_annotation = _attribute("is_user_annotation", bool)
    is_python_function = _attribute("is_python_function")
    activity_type = _attribute("activity_type", str)
    structured_input_shapes = _attribute("structured_input_shapes", list)
    structured_input_strides = _attribute("structured_input_strides", list)
    python_id = _attribute("python_id")
    python_parent_id = _attribute("python_parent_id")
    python_module_id = _attribute("python_module_id")
    flow_id = _attribute("flow_id", int)
    flow_type = _attribute("flow_type", int)
    flow_start = _attribute("flow_start", bool)
    typed_metadata = _attribute("metadata", dict)
    metadata_json = _attribute("_metadata_json", str)

    def name(self) -> str:
        """Name as recorded."""
        return self._event.trace_name or self._event.name

    def start_ns(self) -> int:
        """Unix nanoseconds of the start."""
        return self._origin_ns + round(self._event.time_range.start * 1000)

    def end_ns(self) -> int:
        """Unix nanoseconds of the end."""
        return self._origin_ns + round(self._event.time_range.end * 1000)

    def duration_ns(self) -> int:
        """Duration in nanoseconds."""
        return self.end_ns() - self.start_ns()

    def correlation_id(self) -> int:
        """Id, unique in the process."""
        return self._first_id + int(self._event.id) - 1

    external_id = correlation_id  # there is one id space

    def linked_correlation_id(self) -> int:
        """Id of the operator that launched a device event; 0 for others."""
        linked = int(self._event.linked_correlation_id)
        return self._first_id + linked - 1 if linked > 0 else 0

    def dtypes(self) -> list[str]:
        """Dtypes of the arguments."""
        return list(self._event.input_dtypes or [])

    def is_hidden_event(self) -> bool:
        """Always False: hidden events are not in the trace."""
        return False

    def nbytes(self) -> int:
        """Bytes allocated or, negative, freed; 0 for other events."""
        return self._event.cpu_memory_usage + self._event.device_memory_usage

    def cuda_elapsed_us(self) -> int:
        """Device time measured with CUDA events: always 0, because opscope uses none."""
        return 0

    privateuse1_elapsed_us = cuda_elapsed_us

    def extra_meta(self) -> dict[str, str]:
        """More metadata of a device event: none besides ``event_metadata``."""
        return {}


class TraceActivity:
    """One event with the methods of torch's ``_ITraceActivity``. Times are nanoseconds."""

    def __init__(
        self, event: FunctionEvent, kineto: KinetoEvent, find: Callable[[int], TraceActivity | None]
    ) -> None:
        """``find`` returns the activity with a correlation id."""
        self._event, self._kineto, self._find = event, kineto, find

    name = _delegated("name")
    type = _delegated("activity_type")
    timestamp = _delegated("start_ns")
    duration = _delegated("duration_ns")
    device_id = _delegated("device_index")  # process id for host activities
    resource_id = _delegated("device_resource_id")  # stream, or system thread id
    linked_correlation_id = _delegated("linked_correlation_id")
    flow_id = _delegated("flow_id")
    flow_type = _delegated("flow_type")
    flow_start = _delegated("flow_start")

    def correlation_id(self) -> int:
        """Id, unique in the process; 0 for Python calls and memory, which have no links."""
        linkable = self._kineto.activity_type() not in _NOT_LINKABLE
        return self._kineto.correlation_id() if linkable else 0

    def linked_activity(self) -> TraceActivity | None:
        """The operator that launched this activity."""
        linked = self._kineto.linked_correlation_id()
        return self._find(linked) if linked else None

    def metadata_json(self) -> str:
        """More metadata in files: a JSON object without its braces."""
        event = self._event
        fields: dict[str, Any] = {}
        if event.is_python_function:
            parent = event.python_parent_id
            fields["Python parent id"] = parent if parent >= 0 else None
            fields["Python id"] = event.python_id
        elif self.correlation_id():
            fields["Record function id"] = event.external_id
            if event.sequence_nr >= 0:
                fields |= {"Sequence number": event.sequence_nr, "Fwd thread id": event.fwd_thread}
        if not fields:
            return ""
        return json.dumps({**fields, "Ev Idx": event.id - 1})[1:-1]


def list_activities(events: list[Any], kineto_events: list[KinetoEvent]) -> list[TraceActivity]:
    """Activities of events; ``events`` and ``kineto_events`` have the same order."""
    by_id: dict[int, TraceActivity] = {}
    pairs = zip(events, kineto_events, strict=True)
    activities = [TraceActivity(event, kineto, by_id.get) for event, kineto in pairs]
    by_id.update((a.correlation_id(), a) for a in activities if a.correlation_id())
    return activities


_numbering = _native.Section()
_next_id = 1


def _reserve_ids(count: int) -> int:
    """First of ``count`` correlation ids that no other result of this process has."""

    def reserve() -> int:
        global _next_id
        first, _next_id = _next_id, _next_id + count
        return first

    return _numbering.run(reserve)


class ProfilerResult:
    """``_ProfilerResult``: one finished recording, decoded at first use."""

    def __init__(self, load: Callable[[], TraceData], options: dict[str, Any]) -> None:
        """``load`` returns the trace; ``options`` go to :func:`make_event_list`."""
        self._load = load
        self.options = options

    @cached_property
    def trace(self) -> TraceData:
        """The recording."""
        return self._load()

    @cached_property
    def _first_id(self) -> int:
        return _reserve_ids(len(self.trace.events))

    @cached_property
    def function_events(self) -> EventList:
        """Events as an EventList, created on access."""
        return make_event_list(self.trace, **self.options)

    def events(self) -> list[KinetoEvent]:
        """Events as ``_KinetoEvent`` objects."""
        origin_ns = self.trace_start_ns()
        return [KinetoEvent(e, origin_ns, self._first_id) for e in self.function_events]

    def trace_activities(self) -> list[TraceActivity]:
        """Events as Kineto's activities."""
        return list_activities(list(self.function_events), self.events())

    @cached_property
    def _tree(self) -> ProfilerTree:
        from opscope.torch_api.event_tree.profiler_tree import ProfilerTree

        return ProfilerTree(self.trace, self._first_id)

    def experimental_event_tree(self) -> list[ProfilerEvent]:
        """Roots of the event tree."""
        return self._tree.roots

    def trace_start_ns(self) -> int:
        """Start of the recording, Unix nanoseconds."""
        return int(self.trace.metadata["start_ns"])

    def save(self, path: str | Path, metadata: Mapping[str, Any] | None = None) -> None:
        """Write Chrome JSON, with additional metadata; can be called repeatedly."""
        user = {**self.trace.metadata.get("user", {}), **(metadata or {})}
        from opscope.export.chrome.writer import write_chrome_trace

        write_chrome_trace(self.trace.with_metadata({"user": user}), path)
