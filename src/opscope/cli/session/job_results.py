"""Further output of a run: Chrome file and report; with children, the list of processes and the
answer to ``--why``, from the traces on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote

from opscope.api.job import Job
from opscope.cli.destination import reason, write_or_rescue
from opscope.cli.views.console import Messages
from opscope.cli.views.findings import top_findings
from opscope.cli.views.process_table import describe_cycles, describe_processes
from opscope.columns.metadata_kinds import DETAIL
from opscope.columns.trace_data import TraceData
from opscope.errors import OpscopeError
from opscope.recording.streams.trace_request import Destination
from opscope.storage.job import place_in_job, rank_of
from opscope.storage.manifest import MANIFEST
from opscope.storage.partition import RANK, Partition, partition_folders
from opscope.storage.processes import ProcessEntry, Processes, metadata_of

WriteFile = Callable[[TraceData, "str | os.PathLike[str]"], object]


def draw(
    trace: TraceData, destination: Destination, messages: Messages
) -> Iterator[tuple[str, Path]]:
    """Write the requested files; yields kind and path of each. An error in one does not affect the
    others."""
    for what, write, file in _requested_files(destination):
        try:
            yield what, write_output(what, partial(write, trace), file, messages)
        except (OpscopeError, OSError, MemoryError) as error:
            messages.fail(f"The {what} could not be written: {reason(error)}")


def write_output(
    what: str, write: Callable[[Path], object], path: Path, messages: Messages
) -> Path:
    """Write one file or folder, if necessary to a temporary folder; returns its path."""
    with messages.progress(f"writing the {what}"):
        written, refused = write_or_rescue(write, path)
    if refused is not None:
        messages.fail(f"{refused} Written to another folder instead:")
    return written


def _requested_files(destination: Destination) -> Iterator[tuple[str, WriteFile, Path]]:
    if destination.chrome is not None:
        from opscope.export.chrome.writer import write_chrome_trace

        yield "Chrome trace", write_chrome_trace, destination.chrome
    if destination.report is not None:
        from opscope.report.page import write_report

        yield "report", write_report, destination.report


class JobResults:
    """Results of all processes of a run, once their traces are written. Prints its errors."""

    def __init__(
        self, why: bool, destination: Destination, messages: Messages, rank: int | None
    ) -> None:
        """``rank``: rank of this run in a job; then only its own child processes are shown."""
        self._why, self._destination, self._messages = why, destination, messages
        self._root = None if rank is None else os.getpid()

    def show(self, folder: Path, cycles: list[Path]) -> None:
        """Print the list of processes, write the requested files, print the answer to ``--why``.

        ``cycles``: folders of a schedule's cycles in ``folder``, if there are several.
        """
        processes = Processes.in_folder(folder)
        parts = [Processes.in_folder(cycle) for cycle in cycles]
        for line in describe_cycles(processes, parts) if cycles else describe_processes(processes):
            self._messages.say(line)
        if cycles:
            for number, part in enumerate(parts, start=1):
                self._write_files(part, self._destination.of_cycle(number))
        else:
            self._write_files(processes, self._destination)
        if self._why:
            self._show_findings(self._shown(processes))
        elif shown := next((p for p in (processes, *parts) if p.recorded), None):
            self._messages.say(f"details: `opscope summary {quote(str(shown.folder))}`")
            if self._root is None and _has_ranks(shown):
                self._messages.say(f"slowest rank: `opscope ranks {quote(str(shown.folder))}`")

    def _shown(self, processes: Processes) -> Processes:
        return processes if self._root is None else processes.begun_by(self._root)

    def _write_files(self, processes: Processes, destination: Destination) -> None:
        if destination.chrome is None and destination.report is None:
            return
        try:
            with self._messages.progress(f"reading {processes.folder}"):
                shown = [e.partition for e in self._shown(processes).recorded if e.partition]
                trace = Job(processes.folder, shown).together()
        except (OpscopeError, OSError) as error:
            return self._messages.fail(f"The report of all processes was not written: {error}")
        for what, file in draw(trace, destination, self._messages):
            self._messages.say(f"{what} of all processes written to {file}")

    def _show_findings(self, processes: Processes) -> None:
        active = _most_active_first(processes)
        if not active:
            return self._messages.fail("None of the processes ran torch operators.")
        slow = self._slow_rank(processes)
        chosen = next((process for process in active if process.part == slow), active[0])
        about = f"findings of {_process_text(processes, chosen)}"
        if len(active) > 1:
            warm_count = sum(process.is_warm for process in active)
            state = f"{warm_count or 'none'} of {len(active)} processes completed warm-up"
            why = "the others wait for it" if chosen.part == slow else "it has most events"
            about += f", because {why}; {state}"
        self._messages.say(about)
        findings = top_findings(processes.load(chosen.part), self._messages.wraps)
        self._messages.show(findings)
        if len(active) > 1:
            alternative = next(process for process in active if process is not chosen)
            folder = quote(str(processes.folder))
            self._messages.say(
                f"findings of another process: `opscope why {folder} {alternative.part.option}`; "
                f"all processes: `opscope summary {folder}`"
            )

    def _slow_rank(self, processes: Processes) -> Partition | None:
        """Print which ranks are slow; returns the rank whose fix would save most, if any."""
        if not _has_ranks(processes):
            return None
        try:
            with self._messages.progress("comparing the ranks"):
                slow_ranks = _job_of(processes).slow_ranks()
        except OpscopeError as error:
            self._messages.fail(f"The ranks could not be compared: {error}")
            return None
        for line in slow_ranks.sentences():
            self._messages.say(line)
        waited_for = [slow.process for slow in slow_ranks.found if slow.gain_ns > 0]
        return waited_for[0] if waited_for else None


@dataclass(frozen=True)
class _RecordedProcess:
    entry: ProcessEntry
    part: Partition
    is_warm: bool
    events: int


def job_of_last_rank(folder: Path, rank: int) -> Job | None:
    """The job in ``folder`` if the trace of ``rank`` was the last missing one, else None.

    Every rank of a launcher calls this when its own trace is written, and one of them gets the job.
    None also if a rank writes to another machine, or if a trace is left from an earlier run.
    """
    found = {p.number: path for p, path in partition_folders(folder).items() if p.kind == RANK}
    own = metadata_of(found[rank]) if rank in found else {}
    written = {number: (path / MANIFEST).stat().st_mtime_ns for number, path in found.items()}
    is_complete = 1 < place_in_job(own)[1] <= len(written)
    if not is_complete or min(written.values()) < own.get("start_ns", 0):
        return None
    last = max(written, key=lambda number: (written[number], number))
    return Job(folder) if rank == last else None


def _job_of(processes: Processes) -> Job:
    return Job(processes.folder, [one.partition for one in processes.recorded if one.partition])


def _has_ranks(processes: Processes) -> bool:
    """Whether several of the processes are ranks of one job, also without a launcher."""
    if len(processes.recorded) < 2:
        return False
    try:
        compared = _job_of(processes).compared
    except OpscopeError:  # unreadable traces are reported elsewhere
        return False
    ranks = [rank_of(part, metadata_of(processes.parts[part])) for part in compared]
    return len(ranks) > 1 and None not in ranks


def _most_active_first(processes: Processes) -> list[_RecordedProcess]:
    """Processes with events: those that completed warm-up first, then by number of events."""
    result = []
    for entry in processes.recorded:
        if entry.partition is not None and (n := processes.rows_of(entry.partition, "events")):
            detail = metadata_of(processes.parts[entry.partition]).get(DETAIL) or {}
            stretches = detail.get("stretches", ())
            is_warm = any(one["steps"] for one in stretches)
            is_warm |= any(one["steps"] is None for one in stretches[1:])
            result.append(_RecordedProcess(entry, entry.partition, is_warm, n))
    return sorted(result, key=lambda done: (not done.is_warm, -done.events))


def _process_text(processes: Processes, process: _RecordedProcess) -> str:
    rank = rank_of(process.part, metadata_of(processes.parts[process.part]))
    return f"process {process.entry.process_id}" + ("" if rank is None else f" (rank {rank})")
