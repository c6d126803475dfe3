"""What a trace says of the process it was recorded in."""

from __future__ import annotations

import functools
import os
import platform
import socket
import sys
from pathlib import Path
from typing import Any

from opscope.recording.facts.distributed_job import JOB_KEY, describe_job


@functools.cache
def _boot_id() -> str:
    """Of this start of the machine: processes of one, in containers too, share its clocks."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def process_facts() -> dict[str, Any]:
    """Of this process, as keys of a trace's metadata."""
    torch, job = sys.modules.get("torch"), describe_job()
    return {
        "process_id": os.getpid(),
        "parent_process_id": os.getppid(),
        "command_line": list(map(str, sys.orig_argv)),
        "host_name": socket.gethostname(),
        **({"boot_id": _boot_id()} if _boot_id() else {}),
        "program": str(sys.argv[0]) if sys.argv else "",  # programs put anything there
        "python_version": platform.python_version(),
        "torch_version": str(getattr(torch, "__version__", "")),
        **({JOB_KEY: job} if job else {}),
    }
