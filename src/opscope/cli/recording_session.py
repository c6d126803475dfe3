"""One recording around a program: begun when it imports torch, written when it ends."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.cli.console import Messages
from opscope.cli.destination import Destination, write_or_rescue
from opscope.cli.run_options import RunOptions
from opscope.drop_in.event_list import make_event_list
from opscope.errors import OpscopeError
from opscope.export.chrome_trace import write_chrome_trace
from opscope.trace.trace import Trace

if TYPE_CHECKING:
    from opscope.profiler import profile


class RecordingSession:
    """Records, writes and reports; never lets a fault of its own reach the program.

    Everything it needs is imported with it, before the program runs: at the end the program may
    have changed ``sys.path``, or the interpreter be shutting down.
    """

    def __init__(self, options: RunOptions, destination: Destination, messages: Messages) -> None:
        self._options = options
        self._destination = destination
        self._messages = messages
        self._profile: profile | None = None
        self._failed = False
        self._cycles = 0

    def begin(self) -> None:
        """Start recording; torch has to be imported. Says so, and goes on, if it cannot."""
        try:
            self._profile = self._start()
        except Exception as error:
            self._failed = True
            self._messages.fail(f"{_reason(error)} The program runs on without being recorded.")

    def finish(self) -> None:
        """Stop, write the files, print the table and the names of the files."""
        try:
            self._finish()
        except KeyboardInterrupt:
            self._messages.fail("Interrupted while writing; what was recorded last is lost.")
        except Exception as error:
            self._messages.fail(f"The recording could not be written: {_reason(error)}")

    def _start(self) -> profile:
        import opscope

        arguments = self._options.profile_arguments()
        schedule = self._options.schedule
        if schedule is not None:
            arguments |= {
                "schedule": opscope.schedule(
                    wait=schedule.wait,
                    warmup=schedule.warmup,
                    active=schedule.active,
                    repeat=schedule.repeat,
                ),
                "on_trace_ready": self._keep_cycle,
            }
        started = opscope.profile(**arguments)
        started.start()
        if schedule is not None:
            _step_with_the_optimizer(started)
        return started

    def _finish(self) -> None:
        if self._profile is None:
            if not self._failed:
                self._messages.fail(
                    "The program never imported torch, so there was nothing to record and no file "
                    "was written."
                )
            return
        self._profile.stop()
        if self._options.schedule is None:
            self._keep(self._profile.trace, self._destination)
        elif self._cycles == 0:
            self._messages.fail(
                "No cycle of the schedule began to record, so no file was written. A step is one "
                "call of the optimizer's step(); ask for fewer with --schedule, or record "
                "everything without it."
            )

    def _keep_cycle(self, profiled: profile) -> None:
        self._cycles += 1
        try:
            self._keep(profiled.trace, self._destination.of_cycle(self._cycles))
        except Exception as error:
            self._messages.fail(f"Cycle {self._cycles} could not be written: {_reason(error)}")

    def _keep(self, trace: Trace, destination: Destination) -> None:
        """Write one trace to its files, then show it."""
        with self._messages.progress("writing the trace"):
            written = [("trace", *write_or_rescue(trace.save, destination.trace))]
            if destination.chrome is not None:
                chrome = write_or_rescue(lambda path: _write_chrome(trace, path), destination.chrome)
                written.append(("chrome", *chrome))
        self._show_table(trace)
        self._messages.say(f"recorded {len(trace.events):,} events")
        for what, path, refused in written:
            self._messages.say(f"{what:<7}{path}")
            if refused is not None:
                self._messages.fail(f"The place asked for could not be written to ({refused}).")
        self._messages.say(f"look at it again with: opscope summary {written[0][1]}")

    def _show_table(self, trace: Trace) -> None:
        if not self._options.table:
            return
        if len(trace.events) == 0:
            self._messages.fail("Nothing was recorded: the program ran no torch operator.")
            return
        averages = make_event_list(trace).key_averages()
        self._messages.show(
            averages.table(sort_by=self._options.sort_by, row_limit=self._options.row_limit)
        )
