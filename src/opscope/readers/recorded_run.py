"""A run of a program under ``opscope run``, in a process of its own."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opscope.base.python_process import opscope_command

MOST_LINES, MOST_BYTES = 20, 4000
"""Of what a program printed, the end that is kept."""
_TO_END_S = 30.0


@dataclass(frozen=True)
class RecordedRun:
    """Result of a run.

    Attributes:
        trace: where its trace is; None where none was written.
        exit_code: of the program, as a shell has it: negative for a signal.
        output: the last lines that it printed to standard output.
        messages: the last lines on standard error, opscope's among them.
        is_late: it was ended because it took too long.
    """

    trace: Path | None
    exit_code: int
    output: str
    messages: str
    is_late: bool


def record_run(
    words: Sequence[str],
    trace: Path,
    *,
    options: Sequence[str] = (),
    timeout_s: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> RecordedRun:
    """Run ``opscope run OPTIONS -o TRACE WORDS``, and wait for it.

    Args:
        words: the program and its arguments, as after ``python``.
        trace: the folder to write.
        options: of ``opscope run``.
        timeout_s: after so long it gets SIGTERM, upon which the trace is written.
        environment: of the process; None for that of this one.
    """
    command = opscope_command("run", "--no-table", *options, "-o", str(trace), *words)
    begun = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=None if environment is None else dict(environment),
    )
    is_late = False
    try:
        output, messages = begun.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        is_late = True
        begun.send_signal(signal.SIGTERM)
        try:
            output, messages = begun.communicate(timeout=_TO_END_S)
        except subprocess.TimeoutExpired:
            begun.kill()
            output, messages = begun.communicate()
    except BaseException:  # Ctrl-C: the program has it as well
        begun.terminate()
        begun.wait()
        raise
    return RecordedRun(
        trace if trace.is_dir() else None,
        begun.returncode,
        _end_of(output),
        _end_of(messages),
        is_late,
    )


def _end_of(printed: bytes) -> str:
    lines = printed[-MOST_BYTES:].decode("utf-8", "replace").splitlines()
    return "\n".join(lines[-MOST_LINES:])
