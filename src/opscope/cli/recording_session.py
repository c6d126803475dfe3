"""One recording around a program: begun when it imports torch, written when it ends."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.text import Text

from opscope.analysis.device_account import describe_devices
from opscope.analysis.period import period_of
from opscope.analysis.program_steps import module_calls
from opscope.child_process import ChildProcess, is_limited
from opscope.children.job import ChildrenOfRun
from opscope.cli.completeness import describe_completeness
from opscope.cli.console import Messages
from opscope.cli.destination import Destination, write_or_rescue
from opscope.cli.job_results import JobResults
from opscope.cli.run_options import RunOptions
from opscope.cli.run_results import results_for
from opscope.cli.termination import interrupts_wait
from opscope.cli.top_operators import find_top_operators, ran_anything
from opscope.drop_in.install import install_and_answer
from opscope.optimizer_steps import after_each_optimizer_step
from opscope.own_python import own_python
from opscope.profile_recording import ProfileRecording
from opscope.recording.distributed_job import is_rank_of_several, launched_rank
from opscope.recording.keeper import dismiss_keepers
from opscope.recording.stream import Streams
from opscope.schedule import schedule
from opscope.trace.metadata_kinds import WARM
from opscope.trace.partition import asked_partition
from opscope.trace.trace import Trace
from opscope.warm_steps import WarmSteps

_FEWEST_CALLS = 3
"""Of a network, so that a program without steps is taken to do that."""


class RecordingSession:
    """Records, writes and reports; a fault of its own never reaches the program.

    Whatever this needs is imported before the program runs: see :mod:`opscope.cli.run_results`.
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
        self._results = results_for(options, destination)
        self._profile: ProfileRecording | None = None
        self._warm: WarmSteps | None = None
        self._failed = False
        self._has_kept = False
        self._cycles = 0
        self._children = children
        self._rank = launched_rank() if children is None else children.rank
        self._process = None if children is None else children.process
        self._child = ChildProcess()
        self._streamed: list[ProfileRecording] = []

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
            after_each_optimizer_step(self._profile.step)

    def _begin_to_find_out(self) -> None:
        self._warm = WarmSteps(
            self._new_recording, self._keep_warm_steps, self._answer_so_far, is_rank_of_several
        )
        self._warm.begin()
        after_each_optimizer_step(self._step_ended)

    def _new_recording(self, is_warm: bool = False) -> ProfileRecording:
        recording = ProfileRecording(**self._profile_arguments())
        if is_warm:
            recording.trace_facts[WARM] = True
        if self._options.stream:
            recording.stream_into(self._streams())
            self._streamed.append(recording)
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
            when_refused=lambda reason: self._messages.say(
                "the recording is in memory only until the program ends, because nothing can be "
                f"written to {folder}: {reason}"
            ),
        )

    @property
    def _answers_for_all(self) -> bool:
        """What makes it slow is said in the end, of the process that did most."""
        return self._children is not None and self._options.why

    def _step_ended(self) -> None:
        try:
            if self._warm is not None:
                self._warm.step_ended()
        except Exception as error:  # the program's step must not fail for it
            self._messages.fail(f"The warm steps could not be recorded: {_reason(error)}")

    def finish(self) -> None:
        """Stop, write the files, print the table and the names of the files."""
        recursion_limit = sys.getrecursionlimit()
        try:
            _leave_programs_limits()
            if self._profile is not None:
                self._profile.stop()
            if self._warm is not None:
                self._finish_finding_out(self._warm)
            else:
                self._report()
        except KeyboardInterrupt:
            kept = any(recording.has_stream for recording in self._streamed)
            lost = "" if kept else ", so what was recorded last is lost"
            self._messages.fail(f"Interrupted while writing{lost}.")
        except Exception as error:
            self._messages.fail(f"The recording could not be written: {_reason(error)}")
        finally:
            if self._children is not None:
                with self._said_if_failing("list of processes"):
                    self._finish_children(self._children)
            sys.setrecursionlimit(recursion_limit)
            self._say_what_is_left()
            dismiss_keepers()

    def _finish_children(self, children: ChildrenOfRun) -> None:
        if not is_limited():
            return self._show_job(children)
        self._messages.flush()
        _, ended = self._child.run(lambda: self._show_job(children))
        if ended:
            self._messages.fail(
                f"The traces of the processes could not be made: the process that did it {ended}, "
                "because the program limits what a process may use. What they recorded is kept: "
                f"`opscope recover {shlex.quote(str(children.folder))}`."
            )

    def _show_job(self, children: ChildrenOfRun) -> None:
        with self._messages.progress("making the traces of the processes"):
            cycles, failures = children.finish()
        for error in failures:
            self._messages.fail(str(error))
        results = JobResults(self._results, self._destination, self._messages, self._rank)
        results.show(children.folder, cycles)

    def _say_what_is_left(self) -> None:
        """What becomes of a recording whose trace was not written."""
        if self._failed or not any(recording.has_stream for recording in self._streamed):
            return
        folder = self._destination.trace
        self._messages.say(
            "what was recorded is kept; the process that waits for this makes the trace of it now"
            if self._options.keeper
            else "what was recorded is kept, and `opscope recover "
            f"{shlex.quote(str(folder))}` makes its trace of it"
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
            self._messages.fail(f"What was recorded could not be looked at: {_reason(error)}")
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
            self._messages.fail(f"Cycle {self._cycles} could not be written: {_reason(error)}")

    def _place_of_cycle(self) -> Destination:
        schedule = self._options.schedule
        if (
            schedule is not None and schedule.repeat == 1
        ):  # the only cycle needs no folder of its own
            return self._destination
        return self._destination.of_cycle(self._cycles)

    def _keep(self, profile: ProfileRecording, destination: Destination) -> None:
        """Write one trace to its files, and show it; the process survives whatever that does."""
        with interrupts_wait():
            self._keep_all(profile, destination)
            self._has_kept = True

    def _keep_all(self, profile: ProfileRecording, destination: Destination) -> None:
        if not is_limited():
            return self._write_all(profile, destination)
        self._messages.flush()
        _, ended = self._child.run(lambda: self._write_or_say(profile, destination))
        if ended:
            destination.clear_away()
            self._messages.fail(
                f"The recording could not be written: the process that did it {ended}, because the "
                "program limits what a process may use (address space, processor time, size and "
                "number of files). Limit it less, or record less."
            )

    def _write_or_say(self, profile: ProfileRecording, destination: Destination) -> None:
        try:
            self._write_all(profile, destination)
        except Exception as error:
            self._messages.fail(f"The recording could not be written: {_reason(error)}")

    def _write_long(self, profile: ProfileRecording, destination: Destination) -> None:
        """Write what is too long for the memory of this process; looking at it takes another."""

        def save(folder: Path) -> Path:
            return profile.save_drained(folder, {})

        saved = self._write("trace", save, destination.trace)
        if saved is None:
            return
        for recording in self._streamed:
            recording.discard_streams()
        from opscope.trace.long_trace import LongTrace  # with what reads Parquet

        long = LongTrace.at(saved, asked_partition(self._rank, self._process))
        self._messages.say(describe_completeness(long.small, long.rows["events"]))
        if self._children is None and (destination.chrome or destination.report):
            self._messages.fail(
                "The recording is too long for one file of another tool, or one page, so neither "
                "was written. Choose a part of it: "
                f"`opscope export {shlex.quote(str(saved))} --range 0..10`."
            )
        with self._said_if_failing("summary"):
            if self._rank in (None, 0) and not self._answers_for_all:
                self._say_what_to_change_there(saved)
        self._say_where_to_look(saved)

    def _say_what_to_change_there(self, saved: Path) -> None:
        """Of a recording that is too long for the memory of this process, if that was asked."""
        if self._results.findings is None:
            return
        rank = [] if self._rank is None else ["--rank", str(self._rank)]
        words = ["findings", str(saved), *rank]
        command = own_python(str(Path(__file__).parents[1] / "__main__.py"), *words)
        with self._messages.progress("looking for what to change"):
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
            )
        self._messages.show(Text(done.stdout.rstrip()))
        if done.returncode:
            self._messages.fail(
                f"What to change could not be found out: `opscope {shlex.join(words)}` ended with "
                f"{done.returncode}. {done.stderr.strip()}"
            )

    def _write_all(self, profile: ProfileRecording, destination: Destination) -> None:
        if profile.is_drained:
            return self._write_long(profile, destination)
        trace = profile.trace
        with self._said_if_failing("table"):
            self._show(trace)
        # The rank is given, because a program may run as a rank without forming a process group.
        save = functools.partial(trace.save, rank=self._rank, process=self._process)
        saved = self._write("trace", save, destination.trace)
        if saved is not None:
            for recording in self._streamed:
                recording.discard_streams()
        if self._children is None:
            self._write_pictures(trace, destination)
        with self._said_if_failing("summary"):
            if self._rank in (None, 0) and not self._answers_for_all:
                self._say_what_it_shows(trace)
        if saved is not None:
            self._say_where_to_look(saved)

    def _write_pictures(self, trace: Trace, destination: Destination) -> None:
        made = self._results
        if made.chrome is not None and destination.chrome is not None:
            self._write("Chrome trace", functools.partial(made.chrome, trace), destination.chrome)
        if made.report is not None and destination.report is not None:
            self._write("report", functools.partial(made.report, trace), destination.report)

    def _say_where_to_look(self, saved: Path) -> None:
        if self._children is None:  # else it is said of all of them
            rank = "" if self._rank is None else f" --rank {self._rank}"
            look = f"opscope summary {shlex.quote(str(saved))}{rank}"
            self._messages.say(f"look closer with `{look}`")

    def _say_what_it_shows(self, trace: Trace) -> None:
        findings = self._results.findings
        for line in self._results.headline(trace)[: None if findings is None else 1]:
            self._messages.say(line)
        if findings is not None:
            self._messages.show(findings(trace))

    def _write(self, what: str, write: Callable[[Path], object], path: Path) -> Path | None:
        """Write one file, say where it is, and return that; None, with a message, if it fails."""
        try:
            with self._messages.progress(f"writing the {what}"):
                written, refused = write_or_rescue(write, path)
        except Exception as error:
            self._messages.fail(f"The {what} could not be written: {_reason(error)}")
            return None
        if refused is not None:
            self._messages.fail(f"{refused} It went elsewhere instead:")
        self._messages.say(f"{what} written to {written}")
        return written

    @contextlib.contextmanager
    def _said_if_failing(self, what: str) -> Iterator[None]:
        """Say that ``what`` failed instead of raising: the files are written all the same."""
        try:
            yield
        except Exception as error:
            self._messages.fail(f"The {what} could not be made: {_reason(error)}")

    def _show(self, trace: Trace) -> None:
        options = self._options
        top = find_top_operators(
            period_of(trace), sort_by=options.sort_by, row_limit=options.row_limit
        )
        if not ran_anything(trace):
            who = "program" if self._children is None else "first process"
            self._messages.fail(f"The {who} ran no torch operator while it was recorded.")
        elif self._results.table is not None and self._rank in (None, 0):
            self._messages.show(self._results.table(top, self._messages.width)[0])
        for line in describe_devices(trace):
            self._messages.say(line)
        self._messages.say(describe_completeness(trace))


def _leave_programs_limits() -> None:
    """Undo the recursion limit and the timers that the program has set for itself."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000))
    for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF"):
        if hasattr(signal, name):
            signal.setitimer(getattr(signal, name), 0)


def _reason(error: Exception) -> str:
    if isinstance(error, MemoryError):  # of which libraries say no more than a function's name
        return "there is not enough memory. Free or allow some more, or record less."
    return str(error)
