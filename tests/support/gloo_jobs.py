"""Running jobs on gloo, whose threads sometimes abort a process that ends as it should."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.torch_processes import run_torch

ABORTED = "terminate called without an active exception"
ATTEMPTS = 4


def run_gloo_job(
    arguments: Sequence[str | Path], **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a job to its end, begun as by ``run_torch``; again where gloo aborted a process of it.

    It does so where nothing is recorded, too, in about one job of twenty.
    """
    for _ in range(ATTEMPTS):
        done = run_torch(*arguments, added={"GLOO_SOCKET_IFNAME": "lo", **environment})
        if done.returncode == 0 or ABORTED not in done.stderr:
            break
    assert done.returncode == 0, done.stderr[-3000:]
    return done


_FORKS = """
import os, runpy, socket, sys
program, ranks, *arguments = sys.argv[1:]
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=ranks)
os.environ.update(GLOO_SOCKET_IFNAME="lo")
children = []
for rank in range(int(ranks)):
    if (child := os.fork()) == 0:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name="__main__")
        sys.stdout.flush()
        os._exit(0)  # before gloo's threads may abort it
    children.append(child)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


def run_ranks(
    program: str | Path, ranks: int, *arguments: object
) -> subprocess.CompletedProcess[str]:
    """Run a program as all ranks of a job, forked from one process that has torch."""
    done = run_torch("-c", _FORKS, program, ranks, *arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    return done
