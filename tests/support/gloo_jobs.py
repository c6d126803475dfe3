"""Running jobs on gloo, whose threads sometimes abort a process that ends as it should."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

ABORTED = "terminate called without an active exception"
ATTEMPTS = 4


def run_gloo_job(
    command: Sequence[str | Path], **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a job to its end, again where gloo aborted one of its processes.

    It does so where nothing is recorded, too, in about one job of twenty.
    """
    for _ in range(ATTEMPTS):
        done = subprocess.run(
            command,
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode == 0 or ABORTED not in done.stderr:
            break
    assert done.returncode == 0, done.stderr[-3000:]
    return done
