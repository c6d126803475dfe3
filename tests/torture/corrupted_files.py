"""Thousands of damaged traces, each looked at in every way there is.

    cd tests && ../.venv/bin/python -m torture.corrupted_files --count 2000 --seed 7
    cd tests && ../.venv/bin/python -m torture.corrupted_files --kind replay --seconds 600
    cd tests && ../.venv/bin/python -m torture.corrupted_files --kind readers --count 10000

A minute of a processor, ten minutes or 3 GB of memory are a finding, too: see ``cases.py``.
"""

from __future__ import annotations

import faulthandler
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from support.corruptions import corrupt_calls, corrupt_folder, corrupt_json, numpy_of, seeded
from support.every_view import (
    look_as_readers,
    look_at_everything,
    replay_again,
    server_of_agents,
)
from support.hostile_sources import write_sources
from torture.cases import Case, chosen, in_use_bytes, parser, run_cases, tell

MOST_BYTES = 3 << 30
LIMIT_S = 60
KINDS = (*["folder"] * 6, *["chrome"] * 2, *["replay"] * 2)
CORRUPT = {
    "folder": corrupt_folder,
    "readers": corrupt_folder,
    "chrome": corrupt_json,
    "replay": corrupt_calls,
}


def run_case(seed: int, work: Path, kind: str, number: int) -> str:
    """One case; returns what became of it."""
    draw = seeded(seed, kind, number)
    folder = work / f"{kind}-{number}"
    folder.mkdir()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (in_use_bytes() + MOST_BYTES, most))
    # Of a processor: on a busy machine a minute passes before the libraries are imported.
    faulthandler.register(signal.SIGXCPU, chain=True)
    _, most_s = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + LIMIT_S, most_s))
    warnings.simplefilter("error", RuntimeWarning)  # NumPy's, of arithmetic that went wrong
    faulthandler.dump_traceback_later(10 * LIMIT_S, exit=True)
    try:
        sources = work / "sources" / ("folder" if kind in ("folder", "readers") else "chrome")
        source = draw.choice(sorted(sources.iterdir()))
        path = folder / ("t" if source.is_dir() else "t.json")
        print(f"{source.name}: {CORRUPT[kind](draw, source, path)}", flush=True)
        if kind == "replay":
            return replay_again(path)
        return look_as_readers(path) if kind == "readers" else look_at_everything(path, folder)
    finally:
        faulthandler.cancel_dump_traceback_later()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """The program; returns its exit code."""
    made = parser(__doc__, count=300)
    made.add_argument("--seconds", type=float, default=0, help="round after round, for so long")
    made.add_argument("--built", action="store_true", help="start from made-up traces alone")
    options = made.parse_args()
    print(f"seed {options.seed}", flush=True)
    end = time.monotonic() + options.seconds
    server_of_agents()  # with its libraries, once for all processes

    def rounds() -> Iterator[tuple[Case, str, str]]:
        cases = chosen(options, KINDS)
        while cases:
            yield from run_cases(
                work, cases, lambda *case: run_case(options.seed, work, *case), options.workers
            )
            cases = [(kind, number + len(cases)) for kind, number in cases]
            if time.monotonic() >= end:
                return

    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        numbers = numpy_of(random.Random(options.seed))
        write_sources(work / "sources", numbers, not options.built)
        return tell(rounds(), options.seed)


if __name__ == "__main__":
    sys.exit(main())
