"""The processes of a folder: one line each in the summary, a few lines at the end of a run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from shlex import quote
from typing import Any

from opscope.analysis.memory.counters import where_recorded
from opscope.analysis.memory.over_time import memory_over_time
from opscope.api.job import Job
from opscope.base.quantity_text import bytes_text, time_text
from opscope.cli.views.console import Messages
from opscope.cli.views.findings import MOST_EVENTS, verdict_section
from opscope.cli.views.results import Result, RowsFormat, Section
from opscope.cli.whole_job import report_missing
from opscope.columns.trace_data import TraceData
from opscope.errors import OpscopeError
from opscope.findings.verdict import Verdict
from opscope.launch.process_end import start_of
from opscope.recording.recovered import NothingRecorded, unreadable_recordings
from opscope.storage.manifest import damage_of, unfinished_below
from opscope.storage.partition import PROCESS, RANK, Partition
from opscope.storage.processes import AGAIN, ProcessEntry, Processes, metadata_of

_HEADINGS = ("Process", "Parent", "Events", "Time", "Peak memory", "Ended", "Command line")
_LONGEST_COMMAND = 80
_FEW = 16
_MOST_COMPLAINTS = 3
_TIMES = {"start_ns", "end_ns"}
_PYTHON = "python"


@dataclass(frozen=True)
class ProcessRow:
    """One row of the table; sizes in bytes, times in nanoseconds."""

    process: int  # its id; 0 if unknown
    rank: int | None  # in its job; None without one
    parent: int  # id of the process that began it; 0 if unknown
    how_begun: str  # ``program``, ``started`` or ``forked``
    events: int | None  # that were recorded; None if nothing was
    time_ns: int | None  # how long was recorded
    # most memory of torch's on one device; None where memory was not recorded
    peak_bytes: int | None
    ended: str  # how it ended, if known
    command: tuple[str, ...]  # its command line


def process_rows(job: Job) -> list[ProcessRow]:
    """One per process, in the order in which they began."""
    processes = job.processes
    rows = []
    for entry in processes.entries:
        part = entry.partition
        if part is not None and part in job and part not in processes.parts:
            rows.append(_row_of_loaded(job[part], entry))
        else:
            rows.append(_row(processes, entry))
    return rows


def _row_of_loaded(trace: TraceData, entry: ProcessEntry) -> ProcessRow:
    """A process without an opscope folder: a file of another tool, or an unfinished recording."""
    events = trace.events
    metadata = dict(trace.metadata)
    if len(events) and "end_ns" not in metadata:
        metadata |= {"start_ns": int(events["start_ns"].min()), "end_ns": int(trace.end_ns.max())}
    named = [int(key) for key in metadata.get("process_names", {}) if str(key).isdecimal()]
    if len(named) == 1:
        metadata.setdefault("process_id", named[0])
    found = (
        memory_over_time(where_recorded(trace), categories=False)
        if len(trace.table("allocations"))
        else []
    )
    return _row_of(
        entry, metadata, len(trace.events), max((one.peak.in_use for one in found), default=None)
    )


def _row(processes: Processes, entry: ProcessEntry) -> ProcessRow:
    part = entry.partition
    folder = None if part is None else processes.parts.get(part)
    if part is None or folder is None or damage_of(folder):
        ended = "cannot be read" if folder else entry.refused or entry.ended or _state(entry)
        return replace(_row_of(entry, {}, None, None), ended=ended)
    metadata = metadata_of(folder)
    return _row_of(
        entry, metadata, processes.rows_of(part, "events"), _peak_bytes(processes, entry)
    )


def _row_of(
    entry: ProcessEntry, metadata: dict[str, Any], events: int | None, peak_bytes: int | None
) -> ProcessRow:
    part = entry.partition
    rank = part.number if part is not None and part.kind == RANK else _rank_of(metadata)
    return ProcessRow(
        entry.process_id or int(metadata.get("process_id", 0)) or _number_of(part),
        rank,
        entry.parent_id or int(metadata.get("parent_process_id", 0)),
        entry.how_begun,
        events,
        max(int(metadata["end_ns"]) - int(metadata["start_ns"]), 0)
        if metadata.keys() >= _TIMES
        else None,
        peak_bytes,
        entry.ended or _ended(metadata) or _state(entry),
        entry.command or tuple(map(str, metadata.get("command_line", ()))),
    )


def _number_of(part: Partition | None) -> int:
    """The process that a part is named after."""
    return part.number % AGAIN if part is not None and part.kind == PROCESS else 0


def _rank_of(metadata: dict[str, Any]) -> int | None:
    job = metadata.get("distributedInfo")
    return int(job["rank"]) if isinstance(job, dict) and type(job.get("rank")) is int else None


def _ended(metadata: dict[str, Any]) -> str:
    ended = metadata.get("ended")
    return str(ended.get("how", "")) if isinstance(ended, dict) else ""


def _state(entry: ProcessEntry) -> str:
    """State of a process whose end was not observed."""
    if entry.start and start_of(entry.process_id) == entry.start:
        return "still running"
    return "end unknown" if entry.start else ""


def _peak_bytes(processes: Processes, entry: ProcessEntry) -> int | None:
    part = entry.partition
    if part is None or not processes.rows_of(part, "allocations"):
        return None
    found = memory_over_time(where_recorded(processes.load(part)), categories=False)
    return max((device.peak.in_use for device in found), default=None)


def _cells(row: ProcessRow) -> list[str]:
    rank = "" if row.rank is None else f" (rank {row.rank})"
    return [
        f"{row.process or '-'}{rank}",
        str(row.parent or "-"),
        "-" if row.events is None else f"{row.events:,}",
        "-" if row.time_ns is None else time_text(row.time_ns),
        "-" if row.peak_bytes is None else bytes_text(row.peak_bytes),
        row.ended or "-",
        command_text(row),
    ]


def command_text(row: ProcessRow) -> str:
    """Its command line, or that it was forked: it has its parent's then."""
    text = " ".join(row.command)
    text = text if len(text) <= _LONGEST_COMMAND else f"{text[:_LONGEST_COMMAND]}…"
    return f"forked: {text}" if row.how_begun == "forked" else text


def print_processes(job: Job, format: RowsFormat) -> None:
    """Print the summary of several processes."""
    rows = process_rows(job)
    verdict = _verdict(job)
    first = [] if verdict is None else [verdict_section(verdict)]
    Result(
        sections=[*first, Section(columns=_HEADINGS, rows=list(map(_cells, rows)))],
        content={
            "processes": [asdict(row) for row in rows],
            "verdict": None if verdict is None else verdict.as_dict(),
        },
        columns=[field.name for field in fields(ProcessRow)],
        rows=[[*[*asdict(row).values()][:-1], " ".join(row.command)] for row in rows],
    ).show(format)
    if format is RowsFormat.TABLE:
        messages = Messages()
        for line in describe_processes(job.processes, job.parts, job.unfinished):
            messages.say(line)
        report_missing(job, messages)
        if other := job.ranks_of_another_job():
            messages.say(other)
        messages.say(f"details of one: {_example(job)}")


def _verdict(job: Job) -> Verdict | None:
    """Verdict on a job that is compared quickly; for others, `opscope ranks` names the rank."""
    if len(job.compared) > _FEW or job.unfinished:
        return None
    if job.processes.rows_of(job.most_recorded, "events") > MOST_EVENTS:
        return None
    try:
        with Messages().progress("comparing the processes"):
            return job.verdict()
    except OpscopeError:  # that one cannot be read is said in its row
        return None


def _example(job: Job) -> str:
    processes = job.processes
    most = max(job.parts, key=lambda part: processes.rows_of(part, "events"))
    return f"`opscope summary {quote(str(job.path))} {most.option}`"


def describe_processes(
    processes: Processes,
    parts: Collection[Partition] = (),
    unfinished: Collection[Partition] = (),
) -> list[str]:
    """Sentences about the number of processes, and about those without a trace.

    Args:
        processes: of a folder.
        parts: those that can be looked at, also without a folder of their own.
        unfinished: those among them whose recordings did not end.
    """
    recorded = len({*parts, *processes.parts})
    lines = [f"{len(processes)} processes, {recorded} of them recorded in {processes.folder}"]
    damaged = [text for folder in processes.parts.values() if (text := damage_of(folder))]
    lines += damaged[:_MOST_COMPLAINTS]
    if len(damaged) > _MOST_COMPLAINTS:
        lines.append(f"{len(damaged) - _MOST_COMPLAINTS} more cannot be read")
    lines += _that_cannot_be_read(processes.folder)
    if unfinished:
        lines.append(
            f"{len(unfinished)} of these have unfinished recordings; `opscope doctor --recover "
            f"{processes.folder}` writes the traces of ended processes"
        )
    rest = [entry for entry in processes.unrecorded if entry.partition not in parts]
    return [*lines, *_about_the_rest(rest)]


def _that_cannot_be_read(folder: Path) -> list[str]:
    """Recordings that did not end, and of which there is no part."""
    errors = unreadable_recordings(unfinished_below(folder))
    nothing = sum(isinstance(error, NothingRecorded) for error in errors)
    lines = [f"{nothing} ended when their recordings began, so these are empty"] if nothing else []
    others = [str(error) for error in errors if not isinstance(error, NothingRecorded)]
    return [*lines, *others[:_MOST_COMPLAINTS]]


def describe_cycles(processes: Processes, cycles: list[Processes]) -> list[str]:
    """Sentences about the processes of a job with a schedule, each cycle of which is a trace of its
    own."""
    lines = [f"{len(processes)} processes"]
    lines += [f"{len(cycle.recorded)} of them recorded in {cycle.folder}" for cycle in cycles]
    recorded = {entry.partition for cycle in cycles for entry in cycle.recorded}
    return [*lines, *_about_the_rest([e for e in processes.entries if e.partition not in recorded])]


def _about_the_rest(rest: list[ProcessEntry]) -> list[str]:
    """Sentence about processes without a trace."""
    lines = []
    refused = [entry for entry in rest if entry.refused]
    meant = [entry for entry in rest if entry.partition is not None and not entry.refused]
    silent = [entry for entry in rest if entry.partition is None and not entry.refused]
    early = sum(entry.has_torch for entry in silent)
    if early:
        lines.append(f"{early} ended before their recordings began")
    if len(silent) > early:
        lines.append(f"{len(silent) - early} did not import torch, so they were not recorded")
    if over := sum(bool(entry.ended) for entry in meant):
        lines.append(f"{over} ended before a step that was to be recorded")
    if len(meant) > over:
        lines.append(
            f"{len(meant) - over} still run or are not written yet; their traces are written "
            "when they end"
        )
    for entry in refused[:_MOST_COMPLAINTS]:
        lines.append(f"process {entry.process_id} was not recorded: {entry.refused}")
    return lines
