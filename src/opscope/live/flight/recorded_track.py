"""A line of the timeline that shows what a flight recorder left out to stay below its budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from opscope.columns.concat import concat_traces, in_order_of_start
from opscope.columns.ledger import RECORDER_PREFIX
from opscope.columns.names import Names
from opscope.columns.schema import EventKind, RecordScope
from opscope.columns.trace_data import TraceData
from opscope.live.flight.levels import LEVELS

LINE = "opscope: what was left out"


@dataclass(frozen=True)
class CollectedPeriod:
    """A time in which the same was collected.

    Attributes:
        from_ns: Unix time.
        to_ns: likewise.
        level: what was collected.
    """

    from_ns: int
    to_ns: int
    level: str


def periods_of(
    changes: Iterable[tuple[int, str]], from_ns: int, to_ns: int
) -> list[CollectedPeriod]:
    """What :meth:`Governor.collected_since` said, of the time between two moments."""
    found = []
    for time_ns, level in reversed(list(changes)):
        begin = max(int(time_ns), from_ns)
        if begin < to_ns:
            found.append(CollectedPeriod(begin, to_ns, level))
            to_ns = begin
    return found[::-1]


def with_track(trace: TraceData, periods: Sequence[CollectedPeriod]) -> TraceData:
    """With a span for every period in which less was recorded than in others."""
    most = max((_rank(period.level) for period in periods), default=0)
    less = [period for period in periods if _rank(period.level) < most]
    if not less:
        return trace
    joined = concat_traces([trace, _track(less)])
    tables = {name: trace.table(name) for name in ("ledger", "source_lines")}
    return TraceData({**in_order_of_start(joined), **tables}, joined.names, trace.metadata)


def _rank(level: str) -> int:
    return [name for name, _ in LEVELS].index(level)


def _track(less: Sequence[CollectedPeriod]) -> TraceData:
    texts = sorted({_text(period.level) for period in less})
    count = len(less)
    events = {
        "thread": np.zeros(count, dtype=np.int32),
        "parent": np.full(count, -1, dtype=np.int32),
        "name": np.array([texts.index(_text(p.level)) for p in less], dtype=np.int32),
        "kind": np.full(count, EventKind.ANNOTATION, dtype=np.uint8),
        "scope": np.full(count, RecordScope.USER_SCOPE, dtype=np.uint8),
        "start_ns": np.array([p.from_ns for p in less], dtype=np.int64),
        "duration_ns": np.array([p.to_ns - p.from_ns for p in less], dtype=np.int64),
    }
    threads = {
        "system_thread_id": np.zeros(1, dtype=np.int64),
        "name": np.array([len(texts)], dtype=np.int32),
    }
    return TraceData({"events": events, "threads": threads}, Names.from_strings([*texts, LINE]), {})


def _text(level: str) -> str:
    what = {
        "nothing": "nothing recorded",
        "steps": "no operators",
        "outermost": "only outermost operators",
    }.get(level, f"only {level}")
    return f"{RECORDER_PREFIX}{what} (budget)"
