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

from opscope.cli.destination import reason, write_or_rescue
from opscope.cli.session.finisher import Finisher
from opscope.cli.session.options import RunOptions
from opscope.cli.session.termination import interrupts_wait
from opscope.cli.shown.console import Messages
from opscope.columns.metadata_kinds import OVER, STEPS, WARM
from opscope.live.children.job import ChildrenOfRun
from opscope.live.end_request import Destination, EndRequest, JobRequest
from opscope.live.warm_steps import WarmSteps
from opscope.recording.facts.process_facts import is_rank_of_several, launched_rank
from opscope.recording.streams.keeper import dismiss_keepers
from opscope.recording.streams.stream import Streams
from opscope.timeline.steps import module_calls
from opscope.torch_api.drop_in.install import install_and_answer
from opscope.torch_api.profile_recording import ProfileRecording
from opscope.torch_api.schedule import schedule
from opscope.torch_api.steps import after_each_optimizer_step

_FEWEST_CALLS = 3
"""Of a network, so that a program without steps is taken to do that."""


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
        self._warm: WarmSteps | None = None
        self._failed = False
        self._has_kept = False
        self._cycles = 0
        self._children = children
        self._rank = launched_rank() if children is None else children.rank
        self._process = None if children is None else children.process
        self._finisher = Finisher(destination.trace, messages)
        self._steps = StepsOfRun(self._finisher.is_working)
        self._is_ending = False
        self._asked_last: EndRequest | None = None
        self._shown: EndRequest | None = None
        self._recordings: list[ProfileRecording] = []

    def begin(self) -> None:
        """Start recording; torch is imported. If that fails, say so and let the program run."""
        try:
            # A program that uses torch.profiler itself then pays for one recorder, not for two.
            if os.environ.get("OPSCOPE_DROP_IN") != "0":
                install_and_answer()
            if self._options.why:
                self._begin_to_find_out()
            else:
                self._begin_recording()
            if self._children is not None:
                self._children.recording_began()
        except Exception as error:
            self._failed = True
            self._messages.fail(f"{error} The program runs on without being recorded.")

    def _begin_recording(self) -> None:
        self._profile = self._new_recording()
        self._profile.start()
        if self._options.schedule is not None:
            after_each_optimizer_step(partial(self._steps.step_ended, self._step_of_schedule))

    def _begin_to_find_out(self) -> None:
        self._warm = WarmSteps(
            self._new_recording, self._keep_warm_steps, self._answer_so_far, is_rank_of_several
        )
        self._warm.begin()
        after_each_optimizer_step(partial(self._steps.step_ended, self._step_ended))

    def _new_recording(self, is_warm: bool = False) -> ProfileRecording:
        recording = ProfileRecording(**self._profile_arguments())
        if is_warm:
            recording.trace_facts[WARM] = True
        if self._options.stream:
            recording.stream_into(self._streams())
        self._recordings.append(recording)
        return recording

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
            is_left_to_others=True,
            when_refused=lambda reason: self._messages.say(
                "the recording is in memory only until the program ends, because nothing can be "
                f"written to {folder}: {reason}"
            ),
        )

    @property
    def _answers_for_all(self) -> bool:
        """What makes it slow is said in the end, of the process that did most."""
        return self._children is not None and self._options.why

    def _step_of_schedule(self) -> None:
        if self._profile is not None:
            self._profile.step()

    def _step_ended(self) -> None:
        try:
            if self._warm is not None:
                self._warm.step_ended()
        except Exception as error:  # the program's step must not fail for it
            self._messages.fail(f"The warm steps could not be recorded: {reason(error)}")

    def program_is_over(self) -> None:
        """What is recorded from now on is of Python's own end."""
        for recording in self._recordings:
            recording.trace_facts[OVER] = time.time_ns()

    def finish(self) -> None:
        """Stop, and have another process write the files and say what they show."""
        recursion_limit = sys.getrecursionlimit()
        self._is_ending = True
        self._finisher.program_ends()
        try:
            _leave_programs_limits()
            if self._profile is not None:
                self._profile.stop()
            if self._warm is not None:
                self._finish_finding_out(self._warm)
            else:
                self._report()
            self._ask_for_the_rest()
            self._finisher.wait_at_the_end()
        except KeyboardInterrupt:
            self._say_who_goes_on()
        except Exception as error:
            self._messages.fail(f"The recording could not be written: {reason(error)}")
        finally:
            sys.setrecursionlimit(recursion_limit)
            dismiss_keepers()

    def _ask_for_the_rest(self) -> None:
        """What was last recorded, and what belongs to all processes."""
        asked = self._asked_last or self._more_of_what_was_shown()
        if self._children is not None:
            root = None if self._children.rank is None else os.getpid()
            job = JobRequest(
                self._children.folder, self._children.has_cycles, root, self._destination
            )
            asked = replace(asked or self._request(self._destination), job=job)
        if asked is not None:
            self._finisher.ask(asked)

    def _more_of_what_was_shown(self) -> EndRequest | None:
        """How many steps of the program there were in the end."""
        shown, seen = self._shown, self._steps.seen()
        if shown is None or seen is None:
            return None
        facts = {"metadata": {STEPS: seen}}
        return replace(shown, recording=None, superseded=(), is_more=True, facts=facts)

    def _say_who_goes_on(self) -> None:
        if self._finisher.is_busy:
            self._messages.say("left: another process goes on writing the trace")
        elif any(recording.has_stream for recording in self._recordings):
            folder = shlex.quote(str(self._destination.trace))
            self._messages.fail(
                "Interrupted; what was recorded is kept, and becomes a trace by itself or by "
                f"`opscope doctor --recover {folder}`."
            )
        else:
            self._messages.fail("Interrupted while writing, so what was recorded last is lost.")

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
            self._messages.fail(
                "The program never imported torch, so nothing was recorded and no file written."
            )
        elif self._options.schedule is None:
            self._keep(self._profile, self._destination)
        elif self._cycles == 0:
            self._messages.fail(
                "The schedule never came to an active step, so nothing was recorded and no file "
                "written. A step ends when the optimizer's step() returns; wait for fewer of them, "
                "or record everything by leaving out --schedule."
            )

    def _finish_finding_out(self, warm: WarmSteps) -> None:
        with interrupts_wait():  # for what is being said of a program without steps
            recording = warm.finish()
        if recording is None or self._failed or self._has_kept:
            return
        if warm.recorded_steps:
            self._keep_warm_steps(recording)
        else:
            if not self._answers_for_all:
                self._messages.say(
                    "the program ended before it was warm, so this is about its start; a step ends "
                    "when the optimizer's step() returns"
                    if warm.ended_steps
                    else "no optimizer's step() has returned, so this is about the program from "
                    f"its start on, {warm.limit_s:.0f} s at most"
                )
            self._keep(recording, self._destination)

    def _answer_so_far(self, recording: ProfileRecording) -> bool:
        """Say why a program is slow that has no steps, while it runs on; on a thread of ours.

        Only where it calls a network again and again: else it may still be about to begin.
        """
        warm = self._warm
        if self._failed or self._answers_for_all or warm is None or recording.is_drained:
            return False
        try:
            if len(module_calls(recording.trace)) < _FEWEST_CALLS:
                return False
            self._messages.say(
                f"no optimizer's step() has returned for {warm.limit_s:.0f} s, so this is about "
                "the calls of the network until now; steps are looked at if there are any later"
            )
            self._keep(recording, self._destination)
            self._has_kept = False  # by what is the last that is said
        except Exception as error:  # the program runs on
            self._messages.fail(f"What was recorded could not be looked at: {reason(error)}")
            return False
        return True

    def _keep_warm_steps(self, recording: ProfileRecording) -> None:
        steps = self._warm.recorded_steps if self._warm is not None else 0
        if not self._answers_for_all:
            self._messages.say(f"this is about {steps} steps of the program once it was warm")
        self._keep(recording, self._destination)

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
            asked = self._request_for(profile, destination)
            self._has_kept = True
            if self._is_ending:
                self._asked_last = asked
            elif asked is not None:
                self._finisher.ask(asked)
                self._shown = asked

    def _request_for(
        self, profile: ProfileRecording, destination: Destination
    ) -> EndRequest | None:
        file = profile.stream_file
        if file is None:
            saved = self._save(profile, destination)
            if saved is None:
                return None
            for recording in self._recordings:
                recording.discard_streams()
            return replace(self._request(destination), saved=saved)
        others = () if self._options.schedule is not None else self._other_files(file)
        facts = profile.leave_to_its_file().as_json()
        return replace(self._request(destination), recording=file, superseded=others, facts=facts)

    def _request(self, destination: Destination) -> EndRequest:
        options = self._options
        return EndRequest(
            destination=destination,
            sort_by=options.sort_by,
            row_limit=options.row_limit,
            table=options.table,
            why=options.why,
            rank=self._rank,
            process=self._process,
            with_children=self._children is not None,
            folder=_current_folder(),
        )

    def _other_files(self, chosen: Path) -> tuple[Path, ...]:
        files = (recording.stream_file for recording in self._recordings)
        return tuple(file for file in files if file is not None and file != chosen)

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
            self._messages.fail(f"{refused} It went elsewhere instead:")
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
        """As metadata of a trace has it; None where there were too few to say anything."""
        return None if self._ended < 2 else {"ended": self._ended, "passed_ns": self._passed_ns}


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:  # it is gone
        return Path("/")


def _leave_programs_limits() -> None:
    """Undo the limits and the timers that the program has set for itself, as far as may be."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000))
    for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF"):
        if hasattr(signal, name):
            signal.setitimer(getattr(signal, name), 0)
    for name in ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE"):
        hard = resource.getrlimit(getattr(resource, name))[1]
        resource.setrlimit(getattr(resource, name), (hard, hard))
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
