"""``_ITraceActivity``: what ``_ProfilerResult.trace_activities()`` gives, over a Trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from opscope.torch_api.drop_in.backend.kineto_event import KinetoEvent
from opscope.torch_api.event.function_event import FunctionEvent


class TraceActivity:
    """One event behind the methods of torch's ``_ITraceActivity``. Times are nanoseconds."""

    def __init__(
        self, event: FunctionEvent, kineto: KinetoEvent, find: Callable[[int], TraceActivity | None]
    ) -> None:
        """``find`` gives the activity with a correlation id."""
        self._event = event
        self._kineto = kineto
        self._find = find

    def name(self) -> str:
        """As recorded."""
        return self._kineto.name()

    def type(self) -> str:
        """Kineto's name for the kind of event."""
        return self._kineto.activity_type()

    def timestamp(self) -> int:
        """Start, Unix time."""
        return self._kineto.start_ns()

    def duration(self) -> int:
        """Length."""
        return self._kineto.duration_ns()

    def device_id(self) -> int:
        """Device; the process for what runs on the host."""
        return self._kineto.device_index()

    def resource_id(self) -> int:
        """Stream; the system's id of the thread for what runs on the host."""
        return self._kineto.device_resource_id()

    def correlation_id(self) -> int:
        """Unique in the process; 0 for Python calls and memory, which nothing is linked to."""
        linkable = self._kineto.activity_type() not in _NOT_LINKABLE
        return self._kineto.correlation_id() if linkable else 0

    def linked_correlation_id(self) -> int:
        """Of the operator that launched it; 0 none."""
        return self._kineto.linked_correlation_id()

    def linked_activity(self) -> TraceActivity | None:
        """The operator that launched it."""
        linked = self.linked_correlation_id()
        return self._find(linked) if linked else None

    def flow_id(self) -> int:
        """Number of the arrow from forward to backward it is at an end of; 0 none."""
        return self._kineto.flow_id()

    def flow_type(self) -> int:
        """Kind of that arrow."""
        return self._kineto.flow_type()

    def flow_start(self) -> bool:
        """Whether the arrow starts here."""
        return self._kineto.flow_start()

    def metadata_json(self) -> str:
        """What else a file says of it: the inside of a JSON object, without its braces."""
        event = self._event
        found: dict[str, Any] = {}
        if event.is_python_function:
            parent = event.python_parent_id
            found["Python parent id"] = parent if parent >= 0 else None
            found["Python id"] = event.python_id
        elif self.correlation_id():
            found["Record function id"] = event.external_id
            if event.sequence_nr >= 0:
                found |= {"Sequence number": event.sequence_nr, "Fwd thread id": event.fwd_thread}
        if not found:
            return ""
        return json.dumps({**found, "Ev Idx": event.id - 1})[1:-1]


_NOT_LINKABLE = ("python_function", "cpu_instant_event", "")


def list_activities(events: list[Any], kineto_events: list[KinetoEvent]) -> list[TraceActivity]:
    """Activities of the same events as ``FunctionEvent`` and as ``_KinetoEvent``."""
    by_id: dict[int, TraceActivity] = {}
    pairs = zip(events, kineto_events, strict=True)
    activities = [TraceActivity(event, kineto, by_id.get) for event, kineto in pairs]
    by_id.update((a.correlation_id(), a) for a in activities if a.correlation_id())
    return activities
