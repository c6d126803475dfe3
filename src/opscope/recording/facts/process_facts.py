"""Process facts in a trace: host, rank, job.

A program destroys its process group before it ends, and often reads the trace later. So the last
group seen by a recording counts; without one, the environment of the launcher (torchrun, Slurm and
others).
"""

from __future__ import annotations

import functools
import os
import platform
import socket
import sys
from pathlib import Path
from typing import Any

from opscope.columns.confidential_copy import CONFIDENTIAL, LEAVE_OUT

JOB_KEY = "distributedInfo"  # key in a trace's metadata; torch's name
_last_seen: dict[str, Any] = {}


def note_job() -> None:
    """Remember the current process group, if there is one."""
    global _last_seen
    _last_seen = _initialized() or _last_seen


def describe_job() -> dict[str, Any]:
    """Rank, world size and, if seen, the process group, in torch's form; empty outside a job."""
    return joined_job() or _launched()


def joined_job() -> dict[str, Any]:
    """Rank, world size and configuration of the last process group seen; empty without one."""
    note_job()
    return _last_seen


def is_rank_of_several() -> bool:
    """Whether this process is known to be one of several ranks."""
    size = describe_job().get("world_size", 1)
    return isinstance(size, int) and size > 1


def launched_rank() -> int | None:
    """Rank of this process from launchers such as torchrun; None outside such a job."""
    return _launched().get("rank")


def _initialized() -> dict[str, Any]:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return {}
    try:
        return {
            "backend": distributed.get_backend(),
            "rank": distributed.get_rank(),
            "world_size": distributed.get_world_size(),
            "pg_count": distributed.get_pg_count(),
            "pg_config": distributed.distributed_c10d._get_all_pg_configs(),
        }
    except Exception:  # this or another thread is destroying groups
        return {}


def _launched() -> dict[str, int]:
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size) > 1):
        return {}
    return {"rank": int(rank), "world_size": int(size)}


@functools.cache
def _boot_id() -> str:
    """Id of the machine's boot: processes with the same id share clocks, also in containers."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def process_facts() -> dict[str, Any]:
    """Facts about this process, as keys of a trace's metadata."""
    torch, job = sys.modules.get("torch"), describe_job()
    left_out = os.environ.get(LEAVE_OUT)
    return {
        "process_id": os.getpid(),
        "parent_process_id": os.getppid(),
        "command_line": list(map(str, sys.orig_argv)),
        "host_name": socket.gethostname(),
        **({"boot_id": _boot_id()} if _boot_id() else {}),
        "program": str(sys.argv[0]) if sys.argv else "",  # programs may put anything there
        "python_version": platform.python_version(),
        "torch_version": str(getattr(torch, "__version__", "")),
        **({JOB_KEY: job} if job else {}),
        **({CONFIDENTIAL: left_out} if left_out else {}),
    }
