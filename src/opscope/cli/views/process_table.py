"""The processes of a folder: a table for the summary, a few lines for the end of a run."""

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
from opscope.cli.views.findings import verdict_section
from opscope.cli.views.results import Result, RowsFormat, Section
from opscope.cli.whole_job import report_missing
from opscope.columns.trace_data import TraceData
from opscope.errors import OpscopeError
from opscope.findings.verdict import Verdict
from opscope.launch.process_end import start_of
from opscope.recording.recovered import NothingRecorded, unreadable_recordings
from opscope.storage.job import rank_of
from opscope.storage.manifest import damage_of, unfinished_below
from opscope.storage.partition import PROCESS, Partition
from opscope.storage.processes import AGAIN, ProcessEntry, Processes, metadata_of

_HEADINGS = ("Process", "Parent", "Events", "Time", "Peak memory", "Ended", "Command line")
_LONGEST_COMMAND = 80
_MOST_COMPARED = 16
_MOST_EVENTS = 1_000_000  # of one of the processes that are compared for a verdict
_MOST_ERRORS = 3
_TIMES = {"start_ns", "end_ns"}
_PYTHON = "python"


@dataclass(frozen=True)
class ProcessRow:
    """One row of the table; sizes in bytes, times in nanoseconds."""

    process: int  # process id; 0 if unknown
    rank: int | None
    parent: int  # id of the parent process; 0 if unknown
    how_begun: str  # ``program``, ``started`` or ``forked``
    events: int | None  # number of recorded events; None without a recording
    time_ns: int | None  # recorded time
    peak_bytes: int | None  # peak memory of torch on one device; None if not recorded
    ended: str  # how it ended, if known
    command: tuple[str, ...]  # command line


def process_rows(job: Job) -> list[ProcessRow]:
    """One row per process, in order of start."""
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
    """Row of a process without an opscope folder: file of another tool, or unfinished recording."""
    events = trace.events
    metadata = dict(trace.metadata)
    if len(events) and "end_ns" not in metadata:
        metadata |= {"start_ns": int(events["start_ns"].min()), "end_ns": int(trace.end_ns.max())}
    ids = [int(key) for key in metadata.get("process_names", {}) if str(key).isdecimal()]
    if len(ids) == 1:
        metadata.setdefault("process_id", ids[0])
    memories = (
        memory_over_time(where_recorded(trace), categories=False)
        if len(trace.table("allocations"))
        else []
    )
    return _row_of(
        entry, metadata, len(trace.events), max((one.peak.in_use for one in memories), default=None)
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
    return ProcessRow(
        entry.process_id or int(metadata.get("process_id", 0)) or _process_id(part),
        rank_of(part, metadata),
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


def _process_id(part: Partition | None) -> int:
    """Process id in the name of a part; 0 without one."""
    return part.number % AGAIN if part is not None and part.kind == PROCESS else 0


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
    memories = memory_over_time(where_recorded(processes.load(part)), categories=False)
    return max((device.peak.in_use for device in memories), default=None)


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
    """Shortened command line; forked processes, which have that of the parent, are marked."""
    text = " ".join(row.command)
    text = text if len(text) <= _LONGEST_COMMAND else f"{text[:_LONGEST_COMMAND]}…"
    return f"forked: {text}" if row.how_begun == "forked" else text


def print_processes(job: Job, format: RowsFormat) -> None:
    """Print the summary of several processes."""
    rows = process_rows(job)
    verdict = _verdict(job)
    verdict_sections = [] if verdict is None else [verdict_section(verdict)]
    Result(
        sections=[*verdict_sections, Section(columns=_HEADINGS, rows=list(map(_cells, rows)))],
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
        if another_job := job.ranks_of_another_job():
            messages.say(another_job)
        messages.say(f"details of one: {_example(job)}")


def _verdict(job: Job) -> Verdict | None:
    """Verdict on a job that can be compared quickly; None for others."""
    if len(job.compared) > _MOST_COMPARED or job.unfinished:
        return None
    if job.processes.rows_of(job.most_recorded, "events") > _MOST_EVENTS:
        return None
    try:
        with Messages().progress("comparing the processes"):
            return job.verdict()
    except OpscopeError:  # the table has the unreadable process
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
        processes: the processes of a folder.
        parts: processes that can be read, including those without a folder.
        unfinished: those of ``parts`` with unfinished recordings.
    """
    recorded = len({*parts, *processes.parts})
    lines = [f"{len(processes)} processes, {recorded} of them recorded in {processes.folder}"]
    damaged = [text for folder in processes.parts.values() if (text := damage_of(folder))]
    lines += damaged[:_MOST_ERRORS]
    if len(damaged) > _MOST_ERRORS:
        lines.append(f"{len(damaged) - _MOST_ERRORS} more cannot be read")
    lines += _unreadable_notes(processes.folder)
    if unfinished:
        lines.append(
            f"{len(unfinished)} of these have unfinished recordings; `opscope doctor --recover "
            f"{processes.folder}` writes the traces of ended processes"
        )
    rest = [entry for entry in processes.unrecorded if entry.partition not in parts]
    return [*lines, *_missing_notes(rest)]


def _unreadable_notes(folder: Path) -> list[str]:
    errors = unreadable_recordings(unfinished_below(folder))
    empty = sum(isinstance(error, NothingRecorded) for error in errors)
    lines = [f"{empty} ended when their recordings began, so these are empty"] if empty else []
    others = [str(error) for error in errors if not isinstance(error, NothingRecorded)]
    return [*lines, *others[:_MOST_ERRORS]]


def describe_cycles(processes: Processes, cycles: list[Processes]) -> list[str]:
    """Sentences about the processes of a job whose cycles are separate traces."""
    lines = [f"{len(processes)} processes"]
    lines += [f"{len(cycle.recorded)} of them recorded in {cycle.folder}" for cycle in cycles]
    recorded = {entry.partition for cycle in cycles for entry in cycle.recorded}
    return [*lines, *_missing_notes([e for e in processes.entries if e.partition not in recorded])]


def _missing_notes(rest: list[ProcessEntry]) -> list[str]:
    lines = []
    refused = [entry for entry in rest if entry.refused]
    scheduled = [entry for entry in rest if entry.partition is not None and not entry.refused]
    plain = [entry for entry in rest if entry.partition is None and not entry.refused]
    early = sum(entry.has_torch for entry in plain)
    if early:
        lines.append(f"{early} ended before their recordings began")
    if len(plain) > early:
        lines.append(f"{len(plain) - early} did not import torch, so they were not recorded")
    if ended := sum(bool(entry.ended) for entry in scheduled):
        lines.append(f"{ended} ended before a step that was to be recorded")
    if len(scheduled) > ended:
        lines.append(
            f"{len(scheduled) - ended} still run or are not written yet; their traces are written "
            "when they end"
        )
    for entry in refused[:_MOST_ERRORS]:
        lines.append(f"process {entry.process_id} was not recorded: {entry.refused}")
    return lines
