"""Runs a program with ``opscope run`` in another process."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opscope.base.python_process import opscope_command

MOST_LINES, MOST_BYTES = 20, 4000
"""Limits of the stored output: its last lines."""
_TO_END_S = 30.0


@dataclass(frozen=True)
class RecordedRun:
    """Result of a run."""

    trace: Path | None  # None: no trace was written
    exit_code: int  # negative: number of the signal that ended the program
    output: str  # last lines of standard output
    messages: str  # last lines of standard error, including opscope's messages
    is_late: bool  # it was ended because it exceeded the time limit


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
    command = opscope_command("run", "--no-table", *options, "-o", str(trace), *words)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=None if environment is None else dict(environment),
    )
    is_late = False
    try:
        output, messages = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        is_late = True
        process.send_signal(signal.SIGTERM)
        try:
            output, messages = process.communicate(timeout=_TO_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            output, messages = process.communicate()
    except BaseException:  # such as Ctrl-C, which the program receives too
        process.terminate()
        process.wait()
        raise
    return RecordedRun(
        trace if trace.is_dir() else None,
        process.returncode,
        _end_of(output),
        _end_of(messages),
        is_late,
    )


def _end_of(printed: bytes) -> str:
    lines = printed[-MOST_BYTES:].decode("utf-8", "replace").splitlines()
    return "\n".join(lines[-MOST_LINES:])
