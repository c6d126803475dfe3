"""A recording inside a server or trainer: another process writes its trace, verdict and page.

The program's process only stops the recording, in microseconds, and later reads the verdict file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opscope.errors import LifecycleError
from opscope.recording.facts.process_facts import launched_rank
from opscope.recording.sources import DETAIL, prepare_sources, switches
from opscope.recording.streams.keeper import Answer, begin_keeper, send_to_keeper
from opscope.recording.streams.stream import Streams
from opscope.recording.streams.trace_request import Destination, EndRequest
from opscope.torch_api.profile_recording import ProfileRecording

WHY_ARGUMENTS = {switch.parameter: True for switch in switches() if switch.option in DETAIL}
"""Arguments of :class:`opscope.profile` for a verdict with source lines."""
_MAX_BYTES = 4 << 20


@dataclass(frozen=True)
class HostedOutcome:
    """The results of a recording that another process computed."""

    trace: Path
    report: Path | None  # None if it could not be made
    verdict: Mapping[str, Any] = field(repr=False)  # the verdict's JSON form, and its ``lines``

    @property
    def lines(self) -> list[str]:
        """The verdict as text."""
        return [str(line) for line in self.verdict.get("lines", ())]

    @property
    def metrics(self) -> dict[str, float]:
        """The verdict as flat numbers for trackers."""
        return dict(self.verdict.get("metrics", {}))


class HostedRecording:
    """One recording, and its folder.

    The folder gets ``trace.opscope``, ``verdict.json`` and ``report.html``; for a rank of a job,
    the last two names contain the rank.
    """

    def __init__(self, folder: Path, arguments: Mapping[str, Any], by_stage: bool = False) -> None:
        """``arguments``: of :class:`opscope.profile`; ``by_stage``: separate prefill and decode."""
        self._arguments, self._rank = arguments, launched_rank()
        self._by_stage = by_stage
        report = f"report{_rank_suffix()}.html"
        self.files = Destination(folder / "trace.opscope", report=folder / report)
        self.verdict = folder / verdict_name()
        self._streams = Streams(
            self.files.trace,
            saves=False,
            rank=self._rank,
            when_refused=lambda reason: None,  # then it is in memory, and this process saves it
        )
        self._answer: Answer | None = None

    def new(self) -> ProfileRecording:
        """A recording that has not begun."""
        recording = ProfileRecording(**self._arguments)
        recording.stream_into(self._streams)
        # Compiling and starting a process are too slow for a step.
        prepare_sources()
        begin_keeper(self.files.trace)
        return recording

    def leave(self, recording: ProfileRecording) -> None:
        """Let another process make the trace of a stopped recording.

        Raises:
            OSError, OpscopeError: no process can take it, or it cannot be written here.
        """
        rank, verdict = self._rank, self.verdict
        request = EndRequest(self.files, rank=rank, verdict=verdict, by_stage=self._by_stage)
        file = recording.stream_file
        if file is None:  # the file was not writable, or another recording has it
            saved = recording.trace.save(self.files.trace, rank=self._rank)
            recording.discard_streams()
            request = replace(request, saved=saved)
        else:
            facts = recording.leave_to_its_file().as_json()
            request = replace(request, recording=file, facts=facts)
        with suppress(OSError):
            self.verdict.unlink()
        self._answer = send_to_keeper(self.files.trace, request.as_text(), continues=True)

    def is_being_made(self) -> bool:
        """Whether the other process is working."""
        return self._answer is not None and self._answer.received() is None

    def outcome(self, longest_s: float) -> HostedOutcome:
        """The results; waits up to ``longest_s`` seconds.

        Raises:
            LifecycleError: nothing was recorded, it takes longer, or it failed, by the message.
        """
        if self._answer is None:
            raise LifecycleError("Nothing has been recorded yet. Record some steps or requests.")
        if self._answer.received(longest_s) is None:
            raise LifecycleError(
                f"Another process is still writing {self.files.trace}. Try again later."
            )
        try:
            with open(self.verdict, "rb") as file:
                verdict = json.loads(file.read(_MAX_BYTES))
        except (OSError, ValueError) as error:
            raise LifecycleError(
                f"There is no verdict on {self.files.trace}: {error}. If the process that makes it "
                f"was killed, `opscope doctor --recover {self.files.trace}` writes the trace."
            ) from error
        if "error" in verdict:
            raise LifecycleError(str(verdict["error"]))
        report = self.files.report
        exists = report is not None and report.exists()
        return HostedOutcome(self.files.trace, report if exists else None, verdict)


def verdict_name() -> str:
    """Name of the verdict's file, in a folder that ranks of a job may share."""
    return f"verdict{_rank_suffix()}.json"


def _rank_suffix() -> str:
    rank = launched_rank()
    return "" if rank is None else f"-rank-{rank}"
