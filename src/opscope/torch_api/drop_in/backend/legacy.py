"""Records of ``torch.autograd.profiler_legacy``: one per start, end and allocation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.analysis.flops import FlopCounts, count_flops
from opscope.analysis.torch_listing.argument_lists import plain_shapes
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.tree.arguments import Arguments
from opscope.timeline.tree.links import thread_numbers

_CPU = 0
_ENGINE_PREFIX = "autograd::engine::evaluate_function: "


@dataclass(frozen=True)
class _Recorded:
    """A trace and what is worked out of it once for all its records."""

    trace: TraceData
    arguments: Arguments
    threads: np.ndarray[tuple[int], np.dtype[np.int64]]
    flops: FlopCounts | None


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_: value


@dataclass(frozen=True)
class LegacyRecord:
    """``torch._C._autograd.ProfilerEvent``: a moment, behind the methods of torch's class."""

    _kind: str
    _time_ns: int
    _event: int  # row in events; -1 for the start of the profile and for memory
    _of: _Recorded
    _memory: tuple[int, int] = (0, 0)  # bytes on the host, bytes on a device

    def kind(self) -> str:
        """``push``, ``pop``, ``memory_alloc`` or ``mark``."""
        return self._kind

    def name(self) -> str:
        """Of the span."""
        if self._event >= 0:
            return self._of.trace.event_name(self._event)
        return "__start_profile" if self._kind == "mark" else ""

    def handle(self) -> int:
        """The same for the start and the end of a span."""
        return self._event + 1

    correlation_id = handle

    # Nothing is remote, and nothing is timed with CUDA events.
    node_id = device = _always(-1)
    is_remote = has_cuda = _always(False)
    cuda_elapsed_us = _always(0.0)

    def start_us(self) -> float:
        """Unix time, microseconds."""
        return self._time_ns / 1000

    def cpu_elapsed_us(self, other: LegacyRecord) -> float:
        """Time until ``other``."""
        return (other._time_ns - self._time_ns) / 1000

    def cpu_memory_usage(self) -> int:
        """Bytes allocated or, negative, freed on the host."""
        return self._memory[0]

    def cuda_memory_usage(self) -> int:
        """Bytes allocated or, negative, freed on a device."""
        return self._memory[1]

    def thread_id(self) -> int:
        """torch's id of its thread."""
        return int(self._of.threads[self._event]) if self._event >= 0 else 0

    def fwd_thread_id(self) -> int:
        """torch's id of the thread that ran the forward; 0 none."""
        return self._column("forward_thread", 0)

    def sequence_nr(self) -> int:
        """Shared by forward and backward; -1 none."""
        # torch records none for the autograd engine's own spans. Ours have that of the node they
        # evaluate, which torch's legacy profiler does not show.
        if self.name().startswith(_ENGINE_PREFIX):
            return -1
        return self._column("sequence_number", -1)

    def scope(self) -> int:
        """``RecordScope`` as a number."""
        return self._column("scope", 0)

    def is_async(self) -> bool:
        """Ended on another thread, or after its parent."""
        return bool(self._column("is_async", 0))

    def shapes(self) -> list[list[int]]:
        """Of the arguments."""
        return plain_shapes(self._of.arguments.inputs(self._event)) if self._event >= 0 else []

    def stack(self) -> list[str]:
        """Of TorchScript: not recorded."""
        return []

    def flops(self) -> int:
        """Estimated operations; 0 unknown."""
        counted = self._of.flops
        return int(counted.flops[self._event]) if counted is not None and self._event >= 0 else 0

    def _column(self, name: str, missing: int) -> int:
        return int(self._of.trace.events[name][self._event]) if self._event >= 0 else missing


def legacy_records(trace: TraceData, with_flops: bool) -> list[list[LegacyRecord]]:
    """The records of a trace by thread, in order of time; the first one starts the profile."""
    recorded = _Recorded(
        trace,
        Arguments(trace),
        thread_numbers(trace),
        count_flops(trace) if with_flops else None,
    )
    events, allocations = trace.events, trace.table("allocations")
    spans = np.flatnonzero(events["kind"] <= EventKind.ANNOTATION)
    threads = np.union1d(events["thread"][spans], allocations["thread"])
    start = LegacyRecord("mark", int(trace.metadata["start_ns"]), -1, recorded)
    lists = [[start]]
    for thread in threads:
        rows = spans[events["thread"][spans] == thread]
        lists.append(_spans(recorded, rows) + _memory(recorded, int(thread)))
        lists[-1].sort(key=lambda record: record._time_ns)
    return lists


def _spans(
    recorded: _Recorded, rows: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> list[LegacyRecord]:
    """Starts, and ends so ordered that of spans that end at one time the inner one comes first."""
    start, end = recorded.trace.events["start_ns"], recorded.trace.end_ns
    pushes = [LegacyRecord("push", int(start[row]), int(row), recorded) for row in rows]
    return pushes + [LegacyRecord("pop", int(end[row]), int(row), recorded) for row in rows[::-1]]


def _memory(recorded: _Recorded, thread: int) -> list[LegacyRecord]:
    table = recorded.trace.table("allocations")
    found = []
    for row in np.flatnonzero(table["thread"] == thread):
        size = int(table["size_bytes"][row])
        on_host = table["device_type"][row] == _CPU
        memory = (size, 0) if on_host else (0, size)
        time_ns = int(table["time_ns"][row])
        found.append(LegacyRecord("memory_alloc", time_ns, -1, recorded, memory))
    return found
