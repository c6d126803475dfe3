"""Reads one Chrome trace in a process of its own, for jobs of many: ``FILE FOLDER rank 3``."""

from __future__ import annotations

import sys

from opscope.errors import OpscopeError
from opscope.trace.chrome import load_chrome_trace
from opscope.trace.partition import Partition
from opscope.trace.save_apart import save_trace


def main(file: str, folder: str, kind: str, number: str) -> int:
    """Make a trace of it; says on standard output why that cannot be done."""
    try:
        save_trace(load_chrome_trace(file), folder, Partition(kind, int(number)))
    except OpscopeError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
