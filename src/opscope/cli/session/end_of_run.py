"""The output of ``opscope run``, in a separate process: trace, other files, verdict.

The program's process only stops the recording. It waits a moment for this process, so that messages
appear before the shell's prompt, but it may end long before this process.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
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
from opscope.cli.views.findings import MOST_EVENTS, headline, place_text, top_findings
from opscope.cli.views.operator_table import operator_text
from opscope.columns.trace_data import TraceData
from opscope.errors import OpscopeError, TraceFormatError
from opscope.findings.verdict import find_verdict
from opscope.jobs.saving import save_trace
from opscope.live.recovery import recover_ended
from opscope.recording.facts.program_facts import NO_FACTS, ProgramFacts
from opscope.recording.recovered import about_ended, is_long, is_of_another_run, recover, save_long
from opscope.recording.streams.trace_request import EndRequest, JobRequest
from opscope.storage.long_trace import LongTrace
from opscope.storage.partition import chosen_partition, cycle_folders
from opscope.storage.read_part import load_part
from opscope.timeline.detail import describe_basis
from opscope.timeline.period import period_of
from opscope.timeline.steps import describe_step_boundaries
from opscope.timeline.typical_stretch import typical_part

_NEVER_FIRST = 1000
"""Score with which the OOM killer ends this process before others; the recording's file remains."""

_JUDGED_EVENTS = 300_000
"""Maximum number of events that the verdict on a long recording is computed from."""


@dataclass(frozen=True)
class _SavedTrace:
    folder: Path
    trace: TraceData | None  # None: too long for memory


def end_of_run(request: EndRequest, messages: Messages) -> None:
    """Make the requested output. Failures are printed, and the remaining output is made."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_NEVER_FIRST))
    with contextlib.suppress(OSError):
        os.chdir(request.folder)
    output = _RunOutput(request, messages)
    if request.verdict is not None:
        output.write_verdict(request.verdict)
    elif request.is_more:
        output.add_facts()
    elif request.makes_a_trace:
        output.show_trace()
    if request.job is not None:
        output.show_job(request.job)


class _RunOutput:
    def __init__(self, request: EndRequest, messages: Messages) -> None:
        self._request, self._messages = request, messages

    @property
    def _is_shown(self) -> bool:
        """Whether to print the summary: only of rank 0, and not if ``show_job`` prints findings."""
        request = self._request
        return request.rank in (None, 0) and not (request.why and request.with_children)

    def show_trace(self) -> None:
        """Write the trace of this process, and print its summary."""
        saved = self._save_trace()
        if saved is None or not self._request.is_awaited:
            return
        if saved.trace is None:
            return self._show_long(saved.folder)
        with self._failures_reported("table"):
            self._show(saved.trace)
        if self._is_shown:
            with self._failures_reported("summary"):
                self._print_headline(saved.trace)
        self._print_trace(saved.folder, saved.trace)
        if not self._request.with_children:
            draw(saved.trace, self._request.destination, self._messages)
        self._print_next_command(saved.folder)

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
        if trace is None:  # a long recording: use its typical stretch
            part = chosen_partition(self._request.rank, self._request.process)
            trace = stretch_of(LongTrace.at(saved.folder, part), _JUDGED_EVENTS)
            trace = load_part(saved.folder, part) if trace is None else trace
        self._write_report(trace)
        typical = typical_part(trace, MOST_EVENTS)  # as in ``headline``
        verdict = find_verdict(trace if typical is None else typical.trace)
        requests = find_requests(trace)
        lines = verdict.lines(place_text)
        answer = {**verdict.as_dict(), "lines": lines, "events": len(trace.events)}
        if requests is not None:
            answer["lines"] = [*answer["lines"], *requests.lines()]
            answer["requests"] = requests.as_dict()
        if self._request.by_stage:
            stages = find_stages(trace)
            answer["lines"] = [*answer["lines"], *(stage.line() for stage in stages)]
            answer["stages"] = {s.summary.phase.name.lower(): s.as_dict() for s in stages}
        return answer

    def _write_report(self, trace: TraceData) -> None:
        file = self._request.destination.report
        if file is None:
            return
        from opscope.report.page import write_report

        with self._failures_reported("report"):
            write_output("report", partial(write_report, trace), file, self._messages)

    def add_facts(self) -> None:
        """Add the facts known at the end to a trace that was shown while the program ran."""
        request = self._request
        part = chosen_partition(request.rank, request.process)
        with contextlib.suppress(OpscopeError, OSError):  # the trace was not written, or removed
            trace = load_part(request.destination.trace, part)
            facts = {} if request.facts is None else request.facts["metadata"]
            trace = trace.with_metadata(facts)
            save_trace(trace, request.destination.trace, part)
            if self._is_shown and (boundaries := describe_step_boundaries(period_of(trace).trace)):
                self._messages.say(f"{boundaries}")

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
            return _SavedTrace(write_output("trace", save, folder, self._messages), None)
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

    def _show_long(self, saved: Path) -> None:
        """Print the results of a long trace: a table of all of it, and the verdict on a typical
        stretch."""
        request, part = self._request, chosen_partition(self._request.rank, self._request.process)
        long = LongTrace.at(saved, part)
        typical = stretch_of(long, _JUDGED_EVENTS)
        typical = load_part(saved, part) if typical is None else typical
        with self._failures_reported("table"):
            if request.table and request.rank in (None, 0):
                top = find_long_top_operators(long, sort_by=DEFAULT_SORT, row_limit=DEFAULT_ROWS)
                self._messages.show(operator_text(top, self._messages.width))
            for line in describe_devices(typical):
                self._messages.say(line)
        if self._is_shown:
            with self._failures_reported("summary"):
                self._print_headline(typical)
        self._print_trace(saved, typical, long.rows["events"])
        if not request.with_children:
            draw(typical, replace(request.destination, chrome=None), self._messages)
            with self._failures_reported("Chrome trace"):
                if request.destination.chrome is not None:
                    full_trace = load_part(saved, part)
                    draw(full_trace, replace(request.destination, report=None), self._messages)
        self._print_next_command(saved)

    def _show(self, trace: TraceData) -> None:
        request = self._request
        if not has_work(trace):
            if not request.with_children:  # a launcher has none
                self._messages.fail("The program ran no torch operators during the recording.")
        elif request.table and request.rank in (None, 0):
            top = find_top_operators(period_of(trace), sort_by=DEFAULT_SORT, row_limit=DEFAULT_ROWS)
            self._messages.show(operator_text(top, self._messages.width))
        for line in describe_devices(trace):
            self._messages.say(line)

    def _print_trace(self, folder: Path, trace: TraceData, events: int | None = None) -> None:
        """Print folder and ledger; ``events``: number of all events, if ``trace`` is a part."""
        with self._failures_reported("ledger"):
            self._messages.say(describe_completeness(trace, events))
        self._messages.say(f"trace written to {folder}")

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
