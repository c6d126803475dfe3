"""The recording of one training run, which the callbacks of all frameworks use."""

from __future__ import annotations

import atexit
import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from opscope.base.notice import notice
from opscope.base.quantity_text import nanoseconds
from opscope.columns.names import STEP_PREFIX
from opscope.errors import LifecycleError, OpscopeError
from opscope.integrations.trackers import log_outcome
from opscope.live.flight.recorder import flight_recorder
from opscope.recording.detailed_steps import DetailedSteps
from opscope.recording.facts.process_facts import launched_rank
from opscope.torch_api.annotate import record_function
from opscope.torch_api.hosted_recording import WHY_ARGUMENTS, HostedOutcome, HostedRecording
from opscope.torch_api.profile_recording import ProfileRecording
from opscope.torch_api.settings import ProfileSettings

_SAMPLED_STEPS = 2


class TrainingSession:
    """Records some steps after warm-up in detail; another process computes the verdict.

    The framework's callback calls ``begin``, ``step_ended`` after each step of the optimizer, and
    ``end``. These print opscope's errors and do not raise them. A flight recorder keeps the last
    seconds, and writes a dump after a slow step, an uncaught exception or a hang.
    """

    def __init__(
        self,
        output_dir: str | os.PathLike[str] = "opscope-training",
        *,
        flight: str | float | None = "30s",
        patience_s: float = 60.0,
        every: str | float | None = None,
    ) -> None:
        """Prepare a recording.

        Args:
            output_dir: folder of ``trace.opscope``, ``verdict.json``, ``report.html`` and the
                flight recorder's ``dumps``.
            flight: time that the flight recorder keeps; None: no flight recorder.
            patience_s: longest wait for the verdict at the end of the training.
            every: interval (``"4h"``, or seconds) between samples of two steps, each in a folder
                ``step-N`` with verdict and page; None: no samples.

        Raises:
            UsageError: ``every`` is not a time.
        """
        self._folder = Path(os.path.abspath(output_dir))
        self._flight_s, self._patience_s = flight, patience_s
        self._flight: flight_recorder | None = None
        self._hosted: HostedRecording | None = None
        self._recording: ProfileRecording | None = None  # until enough steps are recorded
        self._detailed: DetailedSteps | None = None
        self._has_enough = False
        self._span: record_function | None = None
        self._steps, self._process = 0, os.getpid()
        self._every_s = None if every is None else nanoseconds(every, "every=") / 1e9
        self._next_s = 0.0  # time of the next sample
        # the running sample and its last step
        self._sample: tuple[HostedRecording, ProfileRecording, int] | None = None
        self.outcome: HostedOutcome | None = None

    @property
    def is_first_rank(self) -> bool:
        """Whether this process prints and logs the verdict."""
        return launched_rank() in (None, 0)

    def begin(self) -> None:
        """Start recording; may be called for several training runs, one after another."""
        self._discard_previous()
        self.outcome, self._process = None, os.getpid()
        atexit.register(self._end_at_exit)
        try:
            self._hosted = HostedRecording(self._folder, {})
            self._recording = self._hosted.new()
            self._recording.detail_with(ProfileSettings.of(WHY_ARGUMENTS))
            self._recording.start()
            self._has_enough = False
            self._detailed = DetailedSteps(self._record_detail)
            self._detailed.begin()
            if self._flight_s is not None:
                self._flight = flight_recorder(self._flight_s, directory=self._folder / "dumps")
                self._flight.start()
        except (OpscopeError, OSError) as error:
            notice(f"{error} The training continues and is not recorded.")

    def step_begins(self) -> None:
        """Begin the step's span; ends the previous span."""
        self.name(f"{STEP_PREFIX}{self._steps}")

    def step_ended(self) -> None:
        """Count a step of the optimizer; decide whether the next one is recorded in detail."""
        self.name(None)
        self._steps += 1
        if self._hosted is None or os.getpid() != self._process:
            return
        try:
            if self._detailed is None:
                return self._sample_now_and_then()
            self._detailed.step_ended()
            if self._has_enough:
                self._hand_over()
                self._next_s = time.monotonic() + (self._every_s or 0)
        except (OpscopeError, OSError) as error:
            self._detailed = self._every_s = None
            notice(f"{error} The training continues and is not recorded.")

    def name(self, part: str | None) -> None:
        """End the previous span, and begin the span ``part``, unless that is None."""
        if self._span is not None:
            self._span.__exit__(None, None, None)
        self._span = None if part is None else record_function(part)
        if self._span is not None:
            self._span.__enter__()

    def end(self, trackers: Iterable[Any] = (), step: int | None = None) -> HostedOutcome | None:
        """End the recording: print the verdict, and log it to ``trackers``.

        Returns:
            The results, also if called again; None, with a message, if there are none.
        """
        if self.outcome is not None or self._hosted is None:
            return self.outcome
        self.name(None)
        self._stop_flight()
        atexit.unregister(self._end_at_exit)
        try:
            self._end_sample()
            self._hand_over()
            self.outcome = self._hosted.outcome(self._patience_s)
        except (OpscopeError, OSError) as error:
            notice(str(error))
        self._hosted = None
        if self.outcome is not None and self.is_first_rank:
            for line in self.outcome.lines:
                notice(line)
            for tracker in trackers:
                log_outcome(tracker, self.outcome, step)
        return self.outcome

    def _end_at_exit(self) -> None:
        """End the recording if the callback did not, for example after an exception."""
        if os.getpid() == self._process:
            self.end()

    def _record_detail(self, on: bool, steps: int) -> None:
        """Start or stop recording in detail. The first steps in detail after warm-up are enough."""
        if self._recording is not None:
            self._recording.record_detail(on, steps)
        self._has_enough = self._has_enough or steps > 0

    def _hand_over(self) -> None:
        recording, detailed = self._recording, self._detailed
        if self._hosted is None or recording is None or detailed is None:
            return
        detailed.finish()
        self._recording = self._detailed = None
        recording.stop()
        self._hosted.leave(recording)

    def _sample_now_and_then(self) -> None:
        if self._sample is not None:
            if self._steps >= self._sample[2]:
                self._end_sample()
        elif self._every_s is not None and time.monotonic() >= self._next_s:
            hosted = HostedRecording(self._folder / f"step-{self._steps}", WHY_ARGUMENTS)
            recording = hosted.new()
            recording.start()
            self._sample = hosted, recording, self._steps + _SAMPLED_STEPS

    def _end_sample(self) -> None:
        if self._sample is None:
            return
        (hosted, recording, _), self._sample = self._sample, None
        self._next_s = time.monotonic() + (self._every_s or 0)
        recording.stop()
        hosted.leave(recording)

    def _stop_flight(self) -> None:
        if self._flight is not None:
            with contextlib.suppress(LifecycleError):
                self._flight.stop()
            self._flight = None

    def _discard_previous(self) -> None:
        """Discard the recordings of an earlier training run that ended with an exception."""
        atexit.unregister(self._end_at_exit)
        if self._hosted is not None and os.getpid() == self._process:
            self._stop_flight()
            if self._detailed is not None:
                self._detailed.finish()
            if self._recording is not None:
                self._recording.stop()
            if self._sample is not None:
                self._sample[1].stop()
        self._hosted = self._recording = self._detailed = self._sample = None
        self.name(None)
