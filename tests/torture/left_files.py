"""Files of recordings that did not end, damaged at random, each read as opscope would.

    cd tests && ../.venv/bin/python -m torture.left_files --count 100000 --seed 7
    cd tests && ../.venv/bin/python -m torture.left_files --only stream:41 --seed 7

Every case ends in an error of opscope's own or in a trace. What does not is a finding: another
exception, a signal, half a minute of a processor, or more memory than twice the file and 256 MiB
beyond what the process had. It is printed with the line that runs that case alone.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas  # noqa: F401  which pyarrow imports where it can, and takes address space for
import pyarrow.dataset  # noqa: F401

from opscope import _native
from opscope.base.left_files import reading
from opscope.errors import OpscopeError
from opscope.live.flight.left_rings import dump_ring
from opscope.live.flight.write_dump import write_dump
from opscope.recording import segments
from opscope.recording.decoded import read_decoded
from opscope.recording.recovered import about_of, recover
from opscope.recording.streams.segment_arrays import read_arrays, write_arrays
from opscope.storage.processes import read_journal
from support.left_corruptions import damage, damage_bytes
from support.left_samples import KINDS, write_samples

SPARE_BYTES = 256 << 20
LIMIT_S = 30.0
CASES_PER_PROCESS = 50
_FINDING = 7


def _recording(folder: Path) -> Path:
    return next(folder.glob(".recording-*.opscope"))


def _read_stream(folder: Path) -> object:
    return recover(_recording(folder))


def _read_copy(folder: Path) -> object:
    log = folder / "log"
    with reading(log):
        return read_decoded(_native.decode_copy(log.read_bytes(), ["/"]))


def _read_state(folder: Path) -> object:
    """What decoding goes on with, without all that makes a trace of it."""
    recording = _recording(folder)
    drain = segments.Drain(recording, about_of(recording)["prefixes"], folder)
    with reading(recording):
        return read_decoded(drain._decoder.decode(segments.RECORDS, 0, True))


def _read_ring(folder: Path) -> object:
    return dump_ring(next(file for file in folder.iterdir() if file.is_file()))


def _read_spool(folder: Path) -> object:
    return write_dump(next(folder.iterdir()))


READERS: dict[str, Callable[[Path], object]] = {
    "stream": _read_stream,
    "tasks": _read_stream,
    "copy": _read_copy,
    "state": _read_state,
    "segments": _read_stream,
    "ring": _read_ring,
    "spool": _read_spool,
    "journal": read_journal,
}
"""Of each kind of sample."""

_WEIGHTS = {
    "stream": 25,
    "tasks": 12,
    "copy": 30,
    "state": 24,
    "segments": 1,
    "ring": 2,
    "spool": 2,
}
"""How many of a hundred cases are of a kind; the journal has the rest."""


@dataclass(frozen=True)
class Run:
    """What all cases have in common."""

    seed: int
    samples: Path
    work: Path

    def damaged(self, kind: str, number: int) -> tuple[Path, str]:
        """The folder of a case, and what was done to it."""
        draw = random.Random(f"{self.seed} {kind} {number}")
        folder = self.work / f"{kind}-{number}"
        shutil.copytree(self.samples / kind, folder)
        if kind == "state":
            return folder, _damage_state(draw, folder)
        return folder, damage(draw, folder)


def _damage_state(draw: random.Random, folder: Path) -> str:
    """In a file that is whole."""
    last = sorted(segments.segments_folder(_recording(folder)).iterdir())[-1]
    dtypes = {"state": "uint8", "name_offsets": "int64", "name_text": "uint8"}
    with open(last / "state.npz", "rb") as file:
        arrays = read_arrays(file, dtypes)
    name = draw.choice(("state", "state", "state", "state", "name_offsets"))
    content = bytearray(arrays[name].tobytes())
    done = damage_bytes(draw, content)
    size = np.dtype(dtypes[name]).itemsize
    arrays[name] = np.frombuffer(content[: len(content) // size * size], dtypes[name])
    write_arrays(last / "state.npz", arrays)
    return f"{name}: {done}"


def run_case(run: Run, kind: str, number: int) -> str:
    """One case; returns what became of it."""
    folder, done = run.damaged(kind, number)
    print(done, flush=True)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    limit = _in_use_bytes() + 2 * size + SPARE_BYTES
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if "asan" not in os.environ.get("LD_PRELOAD", ""):  # whose shadow takes all addresses
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)  # which ends the process; a machine may be busy
    faulthandler.dump_traceback_later(20 * LIMIT_S, exit=True)
    try:
        READERS[kind](folder)
        return "read"
    except OpscopeError as error:
        if isinstance(error, MemoryError):
            raise
        return "refused"
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        shutil.rmtree(folder, ignore_errors=True)


def _in_use_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def cases(count: int) -> Iterator[tuple[str, int]]:
    """So many, of all kinds in turn."""
    kinds = [kind for kind, weight in _WEIGHTS.items() for _ in range(weight)]
    kinds += ["journal"] * (100 - len(kinds))
    random.Random(0).shuffle(kinds)
    for number in range(count):
        yield kinds[number % 100], number


def look(run: Run, all_cases: list[tuple[str, int]], workers: int) -> Counter[str]:
    """All cases, in processes of their own; returns how many ended in which way."""
    outcomes: Counter[str] = Counter()
    waiting = [
        all_cases[at : at + CASES_PER_PROCESS] for at in range(0, len(all_cases), CASES_PER_PROCESS)
    ][::-1]
    running: dict[int, list[tuple[str, int]]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            part = waiting.pop()
            running[_begin(run, part)] = part
        child, status = os.wait()
        part, place = running.pop(child), run.work / f"outcomes-{child}"
        ends = place.read_text().splitlines()
        for (kind, _), end in zip(part, ends, strict=False):
            outcomes[f"{kind} {end}"] += 1
        if status:
            kind, number = part[len(ends)]
            outcomes[f"{kind} FINDING"] += 1
            log = (run.work / f"log-{child}").read_text(errors="replace")
            print(f"\n--only {kind}:{number} --seed {run.seed}: status {status}\n{log}", flush=True)
            waiting.append(part[len(ends) + 1 :])
    return outcomes


def _begin(run: Run, part: list[tuple[str, int]]) -> int:
    child = os.fork()
    if child:
        return child
    own = os.getpid()
    with open(run.work / f"outcomes-{own}", "w", buffering=1) as told:
        for kind, number in part:
            with open(run.work / f"log-{own}", "w") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            faulthandler.enable(file=2)
            try:
                told.write(run_case(run, kind, number) + "\n")
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(_FINDING)
    os._exit(0)


def main(arguments: list[str] | None = None) -> int:
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=2000, help="of cases")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", metavar="KIND:NUMBER", help="one case")
    parser.add_argument("--kind", choices=KINDS, help="cases of this kind alone")
    parser.add_argument("--samples", type=Path, help="made before, or to be kept there")
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        samples = options.samples or work / "samples"
        if not samples.exists():
            samples.mkdir()
            write_samples(samples)
        run = Run(options.seed, samples, work)
        begun_s = time.monotonic()
        outcomes = look(run, _chosen(options), options.workers)
    print(f"{outcomes.total():,} cases in {time.monotonic() - begun_s:.0f} s", flush=True)
    for what, count in sorted(outcomes.items()):
        print(f"  {what}: {count:,}")
    return 1 if any(what.endswith("FINDING") for what in outcomes) else 0


def _chosen(options: argparse.Namespace) -> list[tuple[str, int]]:
    if options.only:
        kind, number = options.only.split(":")
        return [(kind, int(number))]
    if options.kind:
        return [(options.kind, number) for number in range(options.count)]
    return list(cases(options.count))


if __name__ == "__main__":
    sys.exit(main())
