"""``_ProfilerResult``: a finished recording, as torch's profiler passes it to Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope import _native
from opscope.base.cached_property import cached_property
from opscope.columns.trace_data import TraceData
from opscope.torch_api.drop_in.backend.kineto_event import (
    KinetoEvent,
    TraceActivity,
    list_activities,
)
from opscope.torch_api.event_list.event_list import EventList, make_event_list
from opscope.torch_api.event_tree.profiler_event import ProfilerEvent

if TYPE_CHECKING:
    from opscope.torch_api.event_tree.profiler_tree import ProfilerTree

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
