"""Makes the trace of a dump, without the recorded process, which may have ended.

A line of the timeline shows what the flight recorder did not record to stay below its budget.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.files import open_inside, read_inside, remove_inside
from opscope.base.memory_limit import require_memory
from opscope.base.untrusted_files import COUNT, TIME_NS, Between, Shape, parsed_json, reading
from opscope.columns.concat import concat_traces, in_order_of_start
from opscope.columns.confidential_copy import CONFIDENTIAL, NAMES, shown_detail
from opscope.columns.ledger import NOT_KNOWN_MS, RECORDER_PREFIX
from opscope.columns.metadata_kinds import ENDED
from opscope.columns.names import Names
from opscope.columns.schema import EventKind, RecordScope
from opscope.columns.trace_data import TraceData
from opscope.columns.unknown_codes import with_rows
from opscope.columns.validate import checked_trace
from opscope.jobs.saving import save_trace
from opscope.live.flight.dump_request import TRACE_SUFFIX, Reason
from opscope.live.flight.governor import LEVELS
from opscope.recording.compiled.listener import read_sites
from opscope.recording.streams.detached_trace import trace_of_log

LINE = "opscope: what was left out"


@dataclass(frozen=True)
class CollectedPeriod:
    """A period with one level of the governor."""

    from_ns: int  # Unix time
    to_ns: int  # Unix time
    level: str


def periods_of(
    changes: Iterable[tuple[int, str]], from_ns: int, to_ns: int
) -> list[CollectedPeriod]:
    """Periods between two times, from the result of :meth:`Governor.collected_since`."""
    periods = []
    for time_ns, level in reversed(list(changes)):
        begin = max(int(time_ns), from_ns)
        if begin < to_ns:
            periods.append(CollectedPeriod(begin, to_ns, level))
            to_ns = begin
    return periods[::-1]


def with_track(trace: TraceData, periods: Sequence[CollectedPeriod]) -> TraceData:
    """Add a span for every period in which less was recorded than in others."""
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


_FACTS: Shape = {
    "requested_s": (int, float),
    "limited_by": str,
    "written_ns": TIME_NS,
    "ledger": [list],
    "collected": [list],
    "metadata": {"process_id": COUNT},
}
_REASON: Shape = {"time_ns": Between(0, 2**62)}
_MOST_TEXT_BYTES = 64 << 20
PLACES = "places.jsonl"
"""File in a spool with the calls of torch.compile's graphs, see ``LoadedSites``."""


def write_dump(spool: Path) -> Path:
    """Make a trace of a spool, and remove the spool; returns the trace."""
    with reading(spool):
        facts = parsed_json(_read_bytes(spool, "facts.json"), _FACTS)
        reason_json = parsed_json(_read_bytes(spool, "reason.json"), _REASON)
        reason = _reason(reason_json)
        sites = read_sites(_read_optional(spool, PLACES))
        trace = trace_of_log(_log(spool), facts, _ledger_rows(facts), sites, spool)
        bounds = trace.metadata["start_ns"], trace.metadata["end_ns"]
        trace = with_track(trace, periods_of(facts["collected"], *bounds))
        trace = _with_unknown_end(trace, facts)
        stacks = "" if trace.metadata.get(CONFIDENTIAL) == NAMES else _stacks(spool)
        metadata = {"dump": about(trace, facts, reason, stacks)}
        if "ended" in reason_json:
            metadata[ENDED] = reason_json["ended"]
        trace = checked_trace(trace.with_metadata(metadata), str(spool))
        folder = place_of(spool, reason, facts["metadata"]["process_id"])
    save_trace(trace, spool / "trace")
    folder = _move_into_place(spool / "trace", folder)
    remove_inside(spool.parent, spool.name)
    return folder


def _move_into_place(trace: Path, folder: Path) -> Path:
    """Rename the trace to its folder, so that readers see a complete one; returns the folder."""
    if folder.exists():  # another container has a process with the same id
        folder = folder.with_name(f"{folder.stem}-{os.urandom(4).hex()}{TRACE_SUFFIX}")
    os.rename(trace, folder)
    return folder


def _with_unknown_end(trace: TraceData, facts: dict[str, Any]) -> TraceData:
    """Add to the ledger the time at the end in which the governor's changes are unknown.

    A process that was killed, or whose GIL was blocked, could not report them.
    """
    since_ms = (trace.metadata["end_ns"] - facts["written_ns"]) / 1e6
    if not facts["collected"] or since_ms <= 0:
        return trace
    row = {("flight recorder", NOT_KNOWN_MS): since_ms}
    return trace.with_tables({"ledger": with_rows(trace.table("ledger"), row)})


def about(trace: TraceData, facts: dict[str, Any], reason: Reason, stacks: str) -> dict[str, Any]:
    """Metadata of a dump."""
    metadata = trace.metadata
    held_s = (metadata["end_ns"] - metadata["start_ns"]) / 1e9
    return {
        "reason": reason.kind,
        "detail": shown_detail(reason.detail, metadata.get(CONFIDENTIAL)),
        "time_ns": reason.time_ns,
        "requested_s": facts["requested_s"],
        "held_s": round(held_s, 3),
        "limited_by": facts["limited_by"] if held_s < facts["requested_s"] else "",
        "python_stacks": stacks,
    }


def place_of(spool: Path, reason: Reason, process: int) -> Path:
    """Folder of the trace, beside the spool: time, process, number of the dump, reason."""
    at = datetime.fromtimestamp(reason.time_ns / 1e9, timezone.utc)
    number = int(spool.name.rpartition("-")[2])
    name = f"{at:%Y%m%dT%H%M%S}-{process}-{number:04d}-{reason.slug}{TRACE_SUFFIX}"
    return spool.parent / name


def _reason(values: dict[str, Any]) -> Reason:
    if "kind" in values:
        return Reason(str(values["kind"]), str(values["detail"]), values["time_ns"])
    return Reason.of_news(str(values["news"]), int(values["value"]), values["time_ns"])


def _ledger_rows(facts: dict[str, Any]) -> list[tuple[str, str, float]]:
    return [(str(source), str(what), float(value)) for source, what, value in facts["ledger"]]


def _stacks(spool: Path) -> str:
    return _read_optional(spool, "python_stacks.txt").decode(errors="replace")


def _log(spool: Path) -> bytes:
    file = open_inside(spool.parent, f"{spool.name}/log")
    with open(file, "rb") as log:
        require_memory(os.fstat(file).st_size, f"reading {spool.name}")
        return log.read()


def _read_bytes(spool: Path, name: str) -> bytes:
    return read_inside(spool.parent, f"{spool.name}/{name}", _MOST_TEXT_BYTES)


def _read_optional(spool: Path, name: str) -> bytes:
    with contextlib.suppress(OSError):
        return _read_bytes(spool, name)
    return b""
