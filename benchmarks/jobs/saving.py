"""What adding up adds to saving one process of several: ``python -m benchmarks.jobs.saving``.

Processor time of this process, of one trace saved as a process alone and as a rank in turn; the
first time of each in a process of its own, with what has to be imported for it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.jobs.generated import GeneratedJob
from benchmarks.jobs.make import steps_for
from opscope.api.trace import Trace

EVENTS = (500, 10_000, 100_000, 1_000_000)


def main() -> None:
    for events in EVENTS:
        times = 3 if events > 200_000 else 15
        first = [_first(events, as_rank) for as_rank in (False, True)]
        alone, rank = _in_turn(events, times)
        print(
            f"{events:,} events: alone {alone:.1f} ms, as a rank {rank:.1f} ms; first time "
            f"{first[0]:.0f} and {first[1]:.0f} ms of processor time",
            flush=True,
        )


def _trace(events: int) -> Trace:
    layers = 4 if events < 5_000 else 40
    trace = GeneratedJob(2, steps_for(events, layers), layers).trace(1)
    return trace.with_metadata({"distributedInfo": None})


def _save(trace: Trace, folder: str, as_rank: bool) -> float:
    began = time.process_time()
    trace.save(Path(folder) / ("job" if as_rank else "alone"), rank=1 if as_rank else None)
    return (time.process_time() - began) * 1e3


def _in_turn(events: int, times: int) -> tuple[float, float]:
    found: tuple[list[float], list[float]] = ([], [])
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(times + 1):
            for as_rank in (False, True):
                # A new one each time: what was found out of a trace is kept for as long as it is.
                found[as_rank].append(_save(_trace(events), folder, as_rank))
    return statistics.median(found[0][1:]), statistics.median(found[1][1:])


def _first(events: int, as_rank: bool) -> float:
    program = (
        "import sys, tempfile; from benchmarks.jobs import saving; trace = saving._trace("
        f"{events}); print(saving._save(trace, tempfile.mkdtemp(), {as_rank}))"
    )
    done = [
        float(
            subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
        )
        for _ in range(3)
    ]
    return statistics.median(done)


if __name__ == "__main__":
    main()
