"""Runs of programs under ``opscope run``: one, or two that take turns."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from opscope.base.input_file import is_folder, status_of
from opscope.base.python_process import opscope_command
from opscope.storage.manifest import MANIFEST, unfinished_recordings
from opscope.storage.partition import partition_folders

MOST_LINES, MOST_BYTES = 20, 4000
"""Limits of the stored output: its last lines."""
_TO_END_S = 30.0

TURN_S = 0.1
"""Length of a turn: shorter than most bursts of other programs, and long against the refilling of
caches after it."""


@dataclass(frozen=True)
class RecordedRun:
    """Result of a run."""

    trace: Path | None  # None: no trace was written
    exit_code: int  # negative: number of the signal that ended the program
    output: str  # last lines of standard output
    messages: str  # last lines of standard error, including opscope's messages
    is_late: bool = False  # it was ended because it exceeded the time limit
    # start and end of each stop, Unix nanoseconds; an inexact stop is too short, so a step is too
    # long, as beside another program
    stops: tuple[tuple[int, int], ...] = ()


class Run:
    """A program that runs under ``opscope run``; leaving its ``with`` block ends it.

    The program has a process group of its own, in the session of this process. If this process is
    killed, the kernel sends SIGHUP and SIGCONT to a stopped group.
    """

    def __init__(
        self,
        words: Sequence[str],
        trace: Path,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start ``opscope run OPTIONS -o TRACE WORDS``; see :func:`record_run`."""
        self._trace, self._earlier = trace, _recordings(trace)
        self._stops: list[tuple[int, int]] = []
        self._stopped_at_ns: int | None = None
        # Files: pipes would need a reader, and a program that prints a lot would wait for it.
        self._output, self._messages = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115
        self._process = subprocess.Popen(
            opscope_command("run", "--no-table", *options, "-o", str(trace), *words),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._messages,
            env=None if environment is None else dict(environment),
            **_OWN_GROUP,
        )

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self._signal(signal.SIGTERM)
            self.resume()
            try:
                self.wait(_TO_END_S)
            finally:
                self._signal(signal.SIGKILL)
                self.wait()

    @property
    def is_running(self) -> bool:
        """Whether the program runs or is stopped."""
        return self._process.poll() is None

    def wait(self, timeout_s: float | None = None) -> None:
        """Return at the program's end, or after ``timeout_s``."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)

    def stop(self) -> None:
        """Stop all processes of the group."""
        self._signal(signal.SIGSTOP)
        self._stopped_at_ns = time.time_ns()

    def resume(self) -> None:
        """Continue all processes of the group."""
        if self._stopped_at_ns is not None:
            self._stops.append((self._stopped_at_ns, time.time_ns()))
        self._stopped_at_ns = None
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.is_running:  # otherwise the number may be another group's
            os.killpg(self._process.pid, number)

    def result(self, is_late: bool = False) -> RecordedRun:
        """Result of a program that has ended."""
        return RecordedRun(
            self._trace if _recordings(self._trace) - self._earlier else None,
            self._process.returncode,
            _end_of(self._output),
            _end_of(self._messages),
            is_late,
            tuple(self._stops),
        )


_OWN_GROUP: dict[str, Any] = (
    {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}
)


def record_run(
    words: Sequence[str],
    trace: Path,
    *,
    options: Sequence[str] = (),
    timeout_s: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> RecordedRun:
    """Run ``opscope run OPTIONS -o TRACE WORDS``, and wait for it.

    ``timeout_s``: send SIGTERM after this time; the trace is still written.
    """
    with Run(words, trace, options, environment) as run:
        run.wait(timeout_s)
        is_late = run.is_running
    return run.result(is_late)


def record_turns(
    programs: Sequence[Sequence[str]], traces: Sequence[Path], options: Sequence[str]
) -> list[RecordedRun]:
    """:func:`record_run` for several programs at once, which take turns."""
    with ExitStack() as stack:
        runs = [
            stack.enter_context(Run(words, trace, options))
            for words, trace in zip(programs, traces, strict=True)
        ]
        take_turns(runs)
    return [run.result() for run in runs]


def take_turns(runs: Sequence[Run]) -> None:
    """Let one of the programs run at a time, for ``TURN_S`` each, until all have ended.

    Other programs on the machine then disturb all programs alike. The order is random, so that no
    program always runs after the same other one.
    """
    for run in runs:
        run.stop()
    while running := [run for run in runs if run.is_running]:
        for run in random.sample(running, len(running)):
            run.resume()
            run.wait(TURN_S if len(running) > 1 else None)
            run.stop()


def _recordings(trace: Path) -> set[tuple[Path, int, int]]:
    """Identity of each recording in a trace folder, which may be from an earlier run."""
    files = [folder / MANIFEST for folder in partition_folders(trace).values()]
    files += unfinished_recordings(trace) if is_folder(trace) else []
    found = ((file, status_of(file)) for file in files)
    return {(file, one.st_ino, one.st_mtime_ns) for file, one in found if one is not None}


def _end_of(file: IO[bytes]) -> str:
    with file:
        file.seek(max(file.seek(0, os.SEEK_END) - MOST_BYTES, 0))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return "\n".join(lines[-MOST_LINES:])
