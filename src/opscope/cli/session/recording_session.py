"""One recording around a program: begun when it imports torch, handed on when it ends.

Another process makes the trace of it, and says what it shows (``end_of_run.py``).
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

from opscope import _native
from opscope.cli.destination import reason, write_or_rescue
from opscope.cli.session.finisher import WAIT, Finisher
from opscope.cli.session.options import RunOptions
from opscope.cli.session.termination import interrupts_wait
from opscope.cli.views.console import Messages
from opscope.columns.metadata_kinds import OVER, STEPS
from opscope.live.children.job import ChildrenOfRun
from opscope.recording.detailed_steps import START_S, DetailedSteps
from opscope.recording.facts.process_facts import launched_rank
from opscope.recording.streams.keeper import dismiss_keepers
from opscope.recording.streams.stream import Streams
from opscope.recording.streams.trace_request import Destination, EndRequest, JobRequest
from opscope.torch_api.drop_in.install import install_and_answer
from opscope.torch_api.profile_recording import ProfileRecording
from opscope.torch_api.schedule import schedule
from opscope.torch_api.steps import after_each_optimizer_step

_START_OF_WHY_S = 20.0
"""Of a program without steps, in detail: who asks why waits for the answer, not for the program."""

_FEWEST_RECORDS = 100
"""Records of a program without operators that have an answer; imports alone make fewer."""


class RecordingSession:
    """Records, and asks for what is made of it; a fault of its own never reaches the program.

    Whatever this needs is imported before the program runs: at its end ``sys.path`` may have
    changed, and the process may not be able to open another file.
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
        self._shown: EndRequest | None = None

    def begin(self) -> None:
        """Start recording; torch is imported. If that fails, say so and let the program run."""
        try:
            # A program that uses torch.profiler itself then pays for one recorder, not for two.
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
        except Exception as error:  # the program's step must not fail for it
            self._messages.fail(f"Steps could not be recorded in detail: {reason(error)}")

    def program_is_over(self) -> None:
        """Note that events from now on belong to Python's own shutdown."""
        if self._profile is not None:
            self._profile.trace_facts[OVER] = time.time_ns()

    def finish(self) -> None:
        """Stop, and have another process write the files and say what they show."""
        recursion_limit = sys.getrecursionlimit()
        self._is_ending = True
        self._finisher.program_ends()
        try:
            _leave_programs_limits()
            if self._detailed is not None:
                self._detailed.finish()
            if self._profile is not None:
                self._profile.stop()
            self._is_awaited = self._has_answer()
            self._report()
            self._request_last_output()
            if self._is_awaited:
                self._finisher.wait_at_the_end()
        except KeyboardInterrupt:
            self._name_running_children()
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
        is_asked = options.view or files.chrome or files.report or self._children
        ran = _native.names_from(0) or _native.statistics()["records"] >= _FEWEST_RECORDS
        return bool(is_asked or os.environ.get(WAIT) or ran)

    def _request_last_output(self) -> None:
        """Request the output of the last recording, and what belongs to all processes."""
        request = self._last_request or self._updated_request()
        if self._children is not None:
            root = None if self._children.rank is None else os.getpid()
            job = JobRequest(
                self._children.folder, self._children.has_cycles, root, self._destination
            )
            request = replace(request or self._request(self._destination), job=job)
        if request is not None:
            self._finisher.ask(request)

    def _updated_request(self) -> EndRequest | None:
        """The last request with the final number of steps; None if nothing was shown."""
        shown, seen = self._shown, self._steps.seen()
        if shown is None or seen is None:
            return None
        facts = {"metadata": {STEPS: seen}}
        return replace(shown, recording=None, is_more=True, facts=facts)

    def _name_running_children(self) -> None:
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
        steps = self._options.schedule
        arguments: dict[str, Any] = dict(self._options.settings.arguments)
        if steps is not None:
            arguments["schedule"] = schedule(
                wait=steps.wait, warmup=steps.warmup, active=steps.active, repeat=steps.repeat
            )
            arguments["on_trace_ready"] = self._keep_cycle
        return arguments

    def _report(self) -> None:
        """Keep what was recorded, or say why there is nothing to keep."""
        if self._failed:
            return
        if self._profile is None:
            if self._children is not None:  # what they did is said
                return
            self._messages.fail("The program did not import torch, so no trace was written.")
        elif self._options.schedule is None:
            if not self._is_awaited:
                self._messages.fail(
                    "The program ran no torch operators during the recording. Another process "
                    f"writes its trace to {self._destination.trace}."
                )
            self._keep(self._profile, self._destination)
        elif self._cycles == 0:
            self._messages.fail(
                "The program ended before the first active step of the schedule, so no trace "
                "was written. A step ends when Optimizer.step returns. Use smaller numbers, or "
                "omit --schedule to record everything."
            )

    def _keep_cycle(self, profile: ProfileRecording) -> None:
        self._cycles += 1
        try:
            self._keep(profile, self._place_of_cycle())
        except Exception as error:
            self._messages.fail(f"Cycle {self._cycles} could not be written: {reason(error)}")

    def _place_of_cycle(self) -> Destination:
        schedule = self._options.schedule
        if schedule is not None and schedule.repeat == 1:  # it needs no folder of its own
            return self._destination
        return self._destination.of_cycle(self._cycles)

    def _keep(self, profile: ProfileRecording, destination: Destination) -> None:
        """Have the trace of what has just been recorded made, and shown."""
        with interrupts_wait():
            # Of a program that goes on, how many steps there are is known at its end.
            if self._is_ending and (seen := self._steps.seen()) is not None:
                profile.trace_facts[STEPS] = seen
            request = self._request_for(profile, destination)
            if self._is_ending:
                self._last_request = request
            elif request is not None:
                self._finisher.ask(request)
                self._shown = request

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
            folder=_current_folder(),
            is_awaited=self._is_awaited,
        )

    def _save(self, profile: ProfileRecording, destination: Destination) -> Path | None:
        """Write the trace of what is in the memory of this process; its own part of the folder."""
        saved: list[Path] = []
        try:
            # The rank is given, as a program may run as one without forming a process group.
            save = partial(profile.trace.save, rank=self._rank, process=self._process)
            _, refused = write_or_rescue(lambda path: saved.append(save(path)), destination.trace)
        except Exception as error:
            self._messages.fail(f"The trace could not be written: {reason(error)}")
            return None
        if refused is not None:
            self._messages.fail(f"{refused} Written to another place instead:")
        return saved[-1]


class StepsOfRun:
    """The steps of a program, recorded or not: how many ended after the first, and how long they
    took.

    The clock stands while opscope does something at the end of a step: recordings that it starts,
    stops and writes are no time of the program. Steps that ``contends`` is true of do not count:
    another process of opscope's, which makes the trace, has a processor meanwhile.
    """

    def __init__(self, contends: Callable[[], bool] = lambda: False) -> None:
        self._contends, self._has_contended = contends, False
        self._ended = self._passed_ns = 0
        self._since_ns = 0

    def step_ended(self, then: Callable[[], None]) -> None:
        """One has; ``then`` is what opscope does about it."""
        now_ns = time.monotonic_ns()
        if not self._ended:
            self._ended = 1
        elif not self._has_contended:
            self._ended += 1
            self._passed_ns += now_ns - self._since_ns
        try:
            then()
        finally:
            self._has_contended = self._contends()
            self._since_ns = time.monotonic_ns()

    def seen(self) -> dict[str, Any] | None:
        """Number of steps and their time, as metadata; None for fewer than two steps."""
        return None if self._ended < 2 else {"ended": self._ended, "passed_ns": self._passed_ns}


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:  # it is gone
        return Path("/")


def _leave_programs_limits() -> None:
    """Undo limits and timers that the program has set, if possible."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000))
    for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF"):
        if hasattr(signal, name):
            signal.setitimer(getattr(signal, name), 0)
    for name in ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE"):
        hard = resource.getrlimit(getattr(resource, name))[1]
        resource.setrlimit(getattr(resource, name), (hard, hard))
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
