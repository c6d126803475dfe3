"""Which rank of which job this process is, as long as that can be known.

A program takes its process group down before it ends, and looks at what was recorded later, often
at its very end. So the last group that a recording saw counts; without any, what the launcher
(torchrun, Slurm's and others like it) told the process.
"""

from __future__ import annotations

import os
import sys
from typing import Any

JOB_KEY = "distributedInfo"
"""In the metadata of a trace, as torch calls it."""

_last_seen: dict[str, Any] = {}


def note_job() -> None:
    """Remember the process group that there is now, if there is one."""
    global _last_seen
    _last_seen = _initialized() or _last_seen


def describe_job() -> dict[str, Any]:
    """Rank, world size and, where it was seen, the group, as torch says it; empty outside a job."""
    return joined_job() or _launched()


def joined_job() -> dict[str, Any]:
    """The same of the last group that a recording saw; empty without one."""
    note_job()
    return _last_seen


def is_rank_of_several() -> bool:
    """Whether this process is one of several ranks, as far as is known by now."""
    size = describe_job().get("world_size", 1)
    return isinstance(size, int) and size > 1


def launched_rank() -> int | None:
    """This process's rank as launchers such as torchrun tell it; None outside of such a job."""
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    is_job = rank.isdecimal() and size.isdecimal() and int(size) > 1
    return int(rank) if is_job else None


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
    except Exception:  # another thread takes groups down, or this one is in the middle of it
        return {}


def _launched() -> dict[str, Any]:
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size) > 1):
        return {}
    return {"rank": int(rank), "world_size": int(size)}
