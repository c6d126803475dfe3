"""Running the programs that build and test, so that what they said is seen when they fail."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class ReleaseError(Exception):
    """A step failed; what it said is the message."""


def run(
    command: Sequence[str | Path],
    more: Sequence[str | Path] = (),
    *,
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
    timeout_s: float = 1800,
) -> str:
    """Run ``command`` and give what it wrote to standard output.

    Args:
        command: a program and its arguments.
        more: arguments after those.
        folder: to run it in.
        variables: beside those of this process.
        timeout_s: after which it has failed.

    Raises:
        ReleaseError: it failed.
    """
    words = [str(word) for word in (*command, *more)]
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReleaseError(f"{' '.join(words)}: {error}") from error
    if done.returncode != 0:
        said = f"{done.stdout}\n{done.stderr}".strip()
        raise ReleaseError(f"{' '.join(words)} exited with {done.returncode}:\n{said[-4000:]}")
    return done.stdout
