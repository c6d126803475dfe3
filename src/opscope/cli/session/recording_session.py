"""The recording of one program: starts when it imports torch, stops when it ends.

Another process makes the trace and prints the summary (``end_of_run.py``).
"""

from __future__ import annotations

import os
import resource
import shlex
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from opscope.cli.destination import reason, write_or_rescue
from opscope.cli.session.finisher import WAIT, Finisher
from opscope.cli.session.options import RunOptions
from opscope.cli.session.termination import interrupts_wait
from opscope.cli.views.console import Messages
from opscope.columns.metadata_kinds import OVER, STEPS
from opscope.live.children.job import ChildrenOfRun
from opscope.recording.detailed_steps import START_S, DetailedSteps
from opscope.recording.facts.process_facts import launched_rank
from opscope.recording.facts.program_facts import has_work
from opscope.recording.streams.keeper import dismiss_keepers
from opscope.recording.streams.stream import Streams
from opscope.recording.streams.trace_request import Destination, EndRequest, JobRequest
from opscope.torch_api.drop_in.install import install_and_answer
from opscope.torch_api.profile_recording import ProfileRecording
from opscope.torch_api.steps import after_each_optimizer_step

_START_OF_WHY_S = 20.0
"""Time recorded in detail of a program without steps, with ``--why``."""


class RecordingSession:
    """Records the program, and requests the output; its errors are printed, not raised.

    All its imports happen before the program runs: at the end ``sys.path`` may have changed, and
    the process may have too many open files.
    """

    def __init__(
        self,
        options: RunOptions,
        destination: Destination,
        messages: Messages,
        children: ChildrenOfRun | None = None,
    ) -> None:
        self._options = options
        self._destination = destination
        self._messages = messages
        self._profile: ProfileRecording | None = None
        self._detailed: DetailedSteps | None = None
        self._failed = False
        self._cycles = 0
        self._children = children
        self._rank = launched_rank() if children is None else children.rank
        self._process = None if children is None else children.process
        self._finisher = Finisher(destination.trace, messages, options.view)
        self._steps = StepsOfRun(self._finisher.is_working)
        self._is_ending, self._is_awaited = False, True
        self._last_request: EndRequest | None = None
        self._written_request: EndRequest | None = None

    def begin(self) -> None:
        """Start recording; called when torch is imported."""
        try:
            # With the drop-in, a program that uses torch.profiler runs one recorder, not two.
            if os.environ.get("OPSCOPE_DROP_IN") != "0":
                install_and_answer()
            self._begin_recording()
            if self._children is not None:
                self._children.recording_began()
        except Exception as error:
            self._failed = True
            self._messages.fail(f"{error} The program continues without being recorded.")

    def _begin_recording(self) -> None:
        options = self._options
        profile = self._profile = ProfileRecording(**self._profile_arguments())
        if options.stream:
            profile.stream_into(self._streams())
        if options.detail is not None:
            profile.detail_with(options.detail)
        profile.start()
        if options.schedule is not None:
            after_each_optimizer_step(partial(self._steps.step_ended, profile.step))
        elif options.detail is not None:
            start_s = _START_OF_WHY_S if options.why else START_S
            self._detailed = DetailedSteps(profile.record_detail, start_s)
            self._detailed.begin()
            after_each_optimizer_step(self._step_ended)

    def _streams(self) -> Streams:
        options, folder = self._options, self._destination.trace
        return Streams(
            folder,
            by_cycle=options.schedule is not None and options.schedule.repeat != 1,
            max_disk_bytes=options.max_disk_bytes,
            keeper=options.keeper,
            saves=False,
            rank=self._rank,
            process=self._process,
            when_refused=lambda reason: self._messages.say(
                "the recording is only in memory until the program ends, because this folder "
                f"is not writable: {folder}: {reason}"
            ),
        )

    def _step_ended(self) -> None:
        try:
            if self._detailed is not None:
                self._detailed.step_ended()
        except Exception as error:  # the program's step must not fail
            self._messages.fail(f"Steps could not be recorded in detail: {reason(error)}")

    def program_is_over(self) -> None:
        """Note the time: later events belong to Python's shutdown."""
        if self._profile is not None:
            self._profile.trace_facts[OVER] = time.time_ns()

    def finish(self) -> None:
        """Stop recording, and request the output from another process."""
        recursion_limit = sys.getrecursionlimit()
        self._is_ending = True
        self._finisher.program_ends()
        try:
            _reset_limits()
            if self._detailed is not None:
                self._detailed.finish()
            if self._profile is not None:
                self._profile.stop()
            self._is_awaited = self._has_answer()
            self._request_or_report()
            self._request_last_output()
            if self._is_awaited:
                self._finisher.wait_at_the_end()
        except KeyboardInterrupt:
            self._report_interruption()
        except Exception as error:
            self._messages.fail(f"The recording could not be written: {reason(error)}")
        finally:
            sys.setrecursionlimit(recursion_limit)
            dismiss_keepers()

    def _has_answer(self) -> bool:
        """Whether there is anything to wait for: a program that only prints its help runs nothing.

        The process that writes the trace needs a third of a second to start.
        """
        options, files = self._options, self._destination
        is_needed = options.view or files.chrome or files.report or self._children
        return bool(is_needed or os.environ.get(WAIT) or has_work())

    def _request_last_output(self) -> None:
        """Request the output of the last recording and of the whole job."""
        if self._cycles > 1:
            folder = shlex.quote(str(self._destination.trace))
            self._messages.say(f"{self._cycles} cycles were recorded, in {folder}; the last one:")
        request = self._last_request or self._request_to_show()
        if self._children is not None:
            root = None if self._children.rank is None else os.getpid()
            job = JobRequest(
                self._children.folder, self._children.has_cycles, root, self._destination
            )
            request = replace(request or self._request(self._destination), job=job)
        if request is not None:
            self._finisher.request(request)

    def _request_to_show(self) -> EndRequest | None:
        """Show the last cycle that was written while the program ran; None if there is none."""
        request, counts = self._written_request, self._steps.counted()
        if request is None:
            return None
        facts = None if counts is None else {"metadata": {STEPS: counts}}
        return replace(request, recording=None, is_shown=True, is_written=True, facts=facts)

    def _report_interruption(self) -> None:
        if self._finisher.is_busy:
            self._messages.say("another process continues to write the trace")
        elif self._profile is not None and self._profile.has_stream:
            folder = shlex.quote(str(self._destination.trace))
            self._messages.fail(
                "Interrupted; the recording is kept. The watchdog process or `opscope doctor "
                f"--recover {folder}` writes its trace."
            )
        else:
            self._messages.fail(
                "Interrupted while writing, so the last part of the recording is lost."
            )

    def _profile_arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = dict(self._options.settings.arguments)
        if self._options.schedule is not None:
            arguments["schedule"] = self._options.schedule
            arguments["on_trace_ready"] = self._request_cycle
        return arguments

    def _request_or_report(self) -> None:
        """Request the trace, or print why there is none."""
        if self._failed:
            return
        if self._profile is None:
            if self._children is not None:  # the list of processes is printed
                return
            self._messages.fail("The program did not import torch, so no trace was written.")
        elif self._options.schedule is None:
            if not self._is_awaited:
                self._messages.fail(
                    "The program ran no torch operators during the recording. Another process "
                    f"writes its trace to {self._destination.trace}."
                )
            self._request_output(self._profile, self._destination)
        elif self._cycles == 0:
            self._messages.fail(
                "The program ended before the first active step of the schedule, so no trace "
                "was written. A step ends when Optimizer.step returns. Use smaller numbers, or "
                "omit --schedule to record everything."
            )

    def _request_cycle(self, profile: ProfileRecording) -> None:
        self._cycles += 1
        try:
            self._request_output(profile, self._cycle_destination())
        except Exception as error:
            self._messages.fail(f"Cycle {self._cycles} could not be written: {reason(error)}")

    def _cycle_destination(self) -> Destination:
        schedule = self._options.schedule
        if schedule is not None and schedule.repeat == 1:  # a single cycle needs no folder
            return self._destination
        return self._destination.of_cycle(self._cycles)

    def _request_output(self, profile: ProfileRecording, destination: Destination) -> None:
        """Request the trace and the summary of the recording that just stopped."""
        with interrupts_wait():
            # If the program continues, the number of steps is known only at its end.
            if self._is_ending and (counts := self._steps.counted()) is not None:
                profile.trace_facts[STEPS] = counts
            request = self._request_for(profile, destination)
            if self._is_ending:
                self._last_request = request
            elif request is not None:
                self._finisher.request(replace(request, is_shown=False))
                self._written_request = request

    def _request_for(
        self, profile: ProfileRecording, destination: Destination
    ) -> EndRequest | None:
        file = profile.stream_file
        if file is None:
            saved = self._save(profile, destination)
            if saved is None:
                return None
            profile.discard_streams()
            return replace(self._request(destination), saved=saved)
        facts = profile.leave_to_its_file().as_json()
        return replace(self._request(destination), recording=file, facts=facts)

    def _request(self, destination: Destination) -> EndRequest:
        options = self._options
        return EndRequest(
            destination=destination,
            table=options.table,
            why=options.why,
            rank=self._rank,
            process=self._process,
            with_children=self._children is not None,
            is_awaited=self._is_awaited,
        )

    def _save(self, profile: ProfileRecording, destination: Destination) -> Path | None:
        """Write the trace of a recording in memory; returns the folder of this process."""
        folders: list[Path] = []
        try:
            # Pass the rank: the program may be a rank without a process group.
            save = partial(profile.trace.save, rank=self._rank, process=self._process)
            _, refused = write_or_rescue(lambda path: folders.append(save(path)), destination.trace)
        except Exception as error:
            self._messages.fail(f"The trace could not be written: {reason(error)}")
            return None
        if refused is not None:
            self._messages.fail(f"{refused} Written to another folder instead:")
        return folders[-1]


class StepsOfRun:
    """Counts all steps of a program, recorded or not, and their time after the first step.

    Time in which opscope starts, stops or writes recordings is not included. Neither are steps
    that begin while ``contends()`` is true: then opscope's other process competes for the CPUs.
    """

    def __init__(self, contends: Callable[[], bool] = lambda: False) -> None:
        self._contends, self._has_contended = contends, False
        self._ended = self._steps_ns = 0
        self._since_ns = 0

    def step_ended(self, work: Callable[[], None]) -> None:
        """Count a step; ``then``: opscope's work after the step, whose time does not count."""
        now_ns = time.monotonic_ns()
        if not self._ended:
            self._ended = 1
        elif not self._has_contended:
            self._ended += 1
            self._steps_ns += now_ns - self._since_ns
        try:
            work()
        finally:
            self._has_contended = self._contends()
            self._since_ns = time.monotonic_ns()

    def counted(self) -> dict[str, Any] | None:
        """Number of steps and their time, as metadata; None for fewer than two steps."""
        return None if self._ended < 2 else {"ended": self._ended, "passed_ns": self._steps_ns}


def _reset_limits() -> None:
    """Undo limits and timers of the program, if possible."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000))
    for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF"):
        if hasattr(signal, name):
            signal.setitimer(getattr(signal, name), 0)
    for name in ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE"):
        hard = resource.getrlimit(getattr(resource, name))[1]
        resource.setrlimit(getattr(resource, name), (hard, hard))
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
