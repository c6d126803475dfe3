"""The output of ``opscope run``, in a separate process: trace, other files, verdict.

The program's process only stops the recording. It waits a moment for this process, so that messages
appear before the shell's prompt, but it may end long before this process.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from opscope.analysis.device_account import describe_devices
from opscope.analysis.engine_steps import find_stages
from opscope.analysis.long_top_operators import find_long_top_operators
from opscope.analysis.requests import find_requests
from opscope.analysis.top_operators import (
    DEFAULT_ROWS,
    DEFAULT_SORT,
    find_top_operators,
    has_work,
)
from opscope.base.artefacts import at, remove, shared
from opscope.cli.destination import free_folder, reason
from opscope.cli.session.job_results import JobResults, draw, job_of_last_rank, write_output
from opscope.cli.trace_argument import stretch_of
from opscope.cli.views.completeness import describe_completeness
from opscope.cli.views.console import Messages
from opscope.cli.views.findings import headline, place_text, top_findings
from opscope.cli.views.operator_table import operator_text
from opscope.columns.trace_data import TraceData
from opscope.errors import OpscopeError, TraceFormatError
from opscope.findings.verdict import find_verdict
from opscope.jobs.saving import save_trace
from opscope.live.recovery import recover_ended
from opscope.recording.facts.program_facts import NO_FACTS, ProgramFacts
from opscope.recording.recovered import about_ended, is_long, is_of_another_run, recover, save_long
from opscope.recording.streams.trace_request import Destination, EndRequest, JobRequest
from opscope.storage.long_trace import LongTrace
from opscope.storage.partition import chosen_partition, cycle_folders
from opscope.storage.read_part import load_part
from opscope.timeline.detail import describe_basis
from opscope.timeline.period import period_of
from opscope.timeline.typical_stretch import SAMPLE_EVENTS

_NEVER_FIRST = 1000
"""Score with which the OOM killer ends this process before others; the recording's file remains."""


@dataclass(frozen=True)
class _SavedTrace:
    folder: Path
    trace: TraceData  # of a long recording, its typical stretch
    long: LongTrace | None = None


def end_of_run(request: EndRequest, messages: Messages) -> None:
    """Make the requested output. Failures are printed, and the remaining output is made."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_NEVER_FIRST))
    with contextlib.suppress(OSError):
        os.chdir(request.folder)
    output = _RunOutput(request, messages)
    if request.verdict is not None:
        output.write_verdict(request.verdict)
    elif request.is_written:
        output.show_written()
    elif request.makes_a_trace:
        output.show_trace()
    if request.job is not None:
        output.show_job(request.job)


class _RunOutput:
    def __init__(self, request: EndRequest, messages: Messages) -> None:
        self._request, self._messages = request, messages

    @property
    def _is_summarised(self) -> bool:
        """Whether to print the summary: only of rank 0, and not if ``show_job`` prints findings."""
        request = self._request
        return request.rank in (None, 0) and not (request.why and request.with_children)

    @property
    def _files(self) -> Destination:
        """Files of this process alone; with children, ``show_job`` writes them of all."""
        files = self._request.destination
        return replace(files, chrome=None, report=None) if self._request.with_children else files

    def show_trace(self) -> None:
        """Write the trace of this process and other files, and print its summary."""
        saved = self._save_trace()
        if saved is None or not self._request.is_awaited:
            return
        files = self._write_files(saved)
        if self._request.is_shown:
            self._print_results(saved, files)
        else:
            list(files)

    def write_verdict(self, file: Path) -> None:
        """Write the trace, its page, and its verdict or an error as JSON to ``file``."""
        try:
            answer = self._verdict()
        except (OpscopeError, OSError, MemoryError) as error:
            answer = {"error": reason(error)}
        unfinished = file.with_name(f".{file.name}-{os.getpid()}")
        unfinished.write_text(json.dumps(answer), encoding="utf-8")
        unfinished.replace(file)

    def _verdict(self) -> dict[str, Any]:
        saved = self._save_trace()
        if saved is None:
            raise TraceFormatError(
                f"No trace was made of the recording: see the messages of process {os.getpid()}."
            )
        trace = saved.trace
        self._write_report(trace)
        verdict = find_verdict(trace)
        requests = find_requests(trace)
        lines = verdict.lines(place_text)
        answer = {**verdict.as_dict(), "lines": lines, "events": len(trace.events)}
        if requests is not None:
            answer["lines"] = [*answer["lines"], *requests.lines()]
            answer["requests"] = requests.as_dict()
        if self._request.by_stage:
            stages = find_stages(trace)
            answer["lines"] = [*answer["lines"], *(stage.line() for stage in stages)]
            answer["stages"] = {s.phase.name.lower(): s.as_dict() for s in stages}
        return answer

    def _write_report(self, trace: TraceData) -> None:
        file = self._request.destination.report
        if file is None:
            return
        from opscope.report.page import write_report

        with self._failures_reported("report"):
            write_output("report", partial(write_report, trace), file, self._messages)

    def show_written(self) -> None:
        """Show a trace that was written while the program ran, with what is known at the end."""
        request = self._request
        part = chosen_partition(request.rank, request.process)
        folder = request.destination.trace
        with contextlib.suppress(OpscopeError, OSError):  # the trace was not written, or removed
            if LongTrace.at(folder, part).rows["events"] > SAMPLE_EVENTS:
                saved = self._long_trace(folder)
            else:
                facts = {} if request.facts is None else request.facts["metadata"]
                saved = _SavedTrace(folder, load_part(folder, part).with_metadata(facts))
                save_trace(saved.trace, folder, part)
            self._print_results(saved, self._written_files())

    def show_job(self, job: JobRequest) -> None:
        """Make the traces of the other processes, and print the results of all."""
        with self._failures_reported("list of processes"):
            with self._messages.progress("making the traces of the processes"):
                failures = recover_ended(job.folder)
                cycles = cycle_folders(job.folder) if job.has_cycles else []
            for error in failures:
                self._messages.fail(str(error))
            results = JobResults(self._request.why, job.destination, self._messages, job.root)
            results.show(job.folder, cycles)

    def _save_trace(self) -> _SavedTrace | None:
        request = self._request
        try:
            if request.saved is not None:
                return _SavedTrace(request.saved.parent, load_part(request.saved))
            if request.recording is None:
                return None
            file = at(request.recording)
            assert file is not None, f"{request.recording} is not the name of a recording"
            with shared(file) as exists:
                saved = self._trace_of(request.recording) if exists else None
                if saved is not None:
                    remove(file)
            return saved
        except (OpscopeError, OSError, MemoryError) as error:
            self._messages.fail(f"The recording could not be written: {reason(error)}")
            self._messages.say(
                "the recording is kept; `opscope doctor --recover "
                f"{quote(str(request.destination.trace))}` writes its trace"
            )
            return None

    def _trace_of(self, recording: Path) -> _SavedTrace:
        request = self._request
        facts = NO_FACTS if request.facts is None else ProgramFacts.from_json(request.facts)
        facts.keep_sources()
        description, folder = about_ended(recording), self._folder_of(recording)
        if is_long(recording, description):
            save = partial(save_long, recording, facts=facts)
            return self._long_trace(write_output("trace", save, folder, self._messages))
        with self._messages.progress("reading the recording"):
            trace = recover(recording, facts=facts)
        part = chosen_partition(request.rank, request.process)
        save = partial(save_trace, trace, part=part)
        return _SavedTrace(write_output("trace", save, folder, self._messages), trace)

    def _folder_of(self, recording: Path) -> Path:
        """Folder of the trace, with a new name if another run has written there since.

        Processes of a job keep the name: each would choose another new one.
        """
        request = self._request
        path = request.destination.trace
        is_of_job = request.with_children or request.rank is not None or request.process is not None
        if is_of_job or not is_of_another_run(recording, path):
            return path
        self._messages.say(f"another run wrote its trace to {path}; this trace has another folder")
        return free_folder(path)

    def _long_trace(self, folder: Path) -> _SavedTrace:
        part = chosen_partition(self._request.rank, self._request.process)
        long = LongTrace.at(folder, part)
        typical = stretch_of(long)
        return _SavedTrace(folder, load_part(folder, part) if typical is None else typical, long)

    def _print_results(self, saved: _SavedTrace, files: Iterable[tuple[str, Path]]) -> None:
        """Print table, verdict, ledger and written files; of a long trace, the table of all of it,
        and the verdict on a typical stretch."""
        with self._failures_reported("table"):
            self._print_table(saved)
        if self._is_summarised:
            with self._failures_reported("summary"):
                self._print_headline(saved.trace)
        with self._failures_reported("ledger"):
            events = None if saved.long is None else saved.long.rows["events"]
            self._messages.say(describe_completeness(saved.trace, events))
        self._messages.say(f"trace written to {saved.folder}")
        for what, file in files:
            self._messages.say(f"{what} written to {file}")
        self._print_next_command(saved.folder)

    def _print_table(self, saved: _SavedTrace) -> None:
        request = self._request
        if not has_work(saved.trace):
            if not request.with_children:  # a launcher has none
                self._messages.fail("The program ran no torch operators during the recording.")
        elif request.table and request.rank in (None, 0):
            if saved.long is None:
                find = partial(find_top_operators, period_of(saved.trace))
            else:
                find = partial(find_long_top_operators, saved.long)
            top = find(sort_by=DEFAULT_SORT, row_limit=DEFAULT_ROWS)
            self._messages.show(operator_text(top, self._messages.width))
        for line in describe_devices(saved.trace):
            self._messages.say(line)

    def _write_files(self, saved: _SavedTrace) -> Iterator[tuple[str, Path]]:
        """Write the requested files: the Chrome trace of all, the report of a typical stretch."""
        files, whole = self._files, saved.trace
        with self._failures_reported("Chrome trace"):
            if saved.long is not None and files.chrome is not None:
                part = chosen_partition(self._request.rank, self._request.process)
                whole = load_part(saved.folder, part)
            yield from draw(whole, replace(files, report=None), self._messages)
        yield from draw(saved.trace, replace(files, chrome=None), self._messages)

    def _written_files(self) -> Iterator[tuple[str, Path]]:
        files = self._files
        for what, file in (("Chrome trace", files.chrome), ("report", files.report)):
            if file is not None and file.exists():
                yield what, file

    def _print_headline(self, trace: TraceData) -> None:
        if self._request.why:
            self._messages.say(describe_basis(trace))
        for line in headline(trace)[: 1 if self._request.why else None]:
            self._messages.say(line)
        if self._request.why:
            self._messages.show(top_findings(trace, self._messages.wraps))

    def _print_next_command(self, saved: Path) -> None:
        if not self._request.with_children:  # else JobResults prints the command
            rank = "" if self._request.rank is None else f" --rank {self._request.rank}"
            self._messages.say(f"details: `opscope summary {quote(str(saved))}{rank}`")
            if rank:
                self._messages.say(f"all ranks: `opscope summary {quote(str(saved))}`")
                with self._failures_reported("verdict of the job"):
                    self._print_job(saved)

    def _print_job(self, saved: Path) -> None:
        """The verdict on all ranks, of which a rank alone knows only that it waits for others."""
        assert self._request.rank is not None
        job = job_of_last_rank(saved, self._request.rank)
        if job is not None:
            for line in job.verdict().lines(place_text):
                self._messages.say(f"all ranks: {line}")

    @contextlib.contextmanager
    def _failures_reported(self, what: str) -> Iterator[None]:
        """Print errors instead of raising them: the remaining output must be made."""
        try:
            yield
        except Exception as error:
            self._messages.fail(f"The {what} could not be made: {reason(error)}")
