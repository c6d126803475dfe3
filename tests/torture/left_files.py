"""Files of recordings that did not end, damaged at random, each read as opscope would.

    cd tests && ../.venv/bin/python -m torture.left_files --count 100000 --seed 7
    cd tests && ../.venv/bin/python -m torture.left_files --only stream:41 --seed 7

Half a minute of a processor, or more memory than twice the file and 256 MiB beyond what the process
had, is a finding, too: see ``cases.py``.
"""

from __future__ import annotations

import faulthandler
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pandas  # noqa: F401  which pyarrow imports where it can, and takes address space for
import pyarrow.dataset  # noqa: F401

from opscope import _native
from opscope.base.untrusted_files import reading
from opscope.errors import OpscopeError
from opscope.live.flight.write_dump import write_dump
from opscope.live.recovery import dump_ring
from opscope.recording import segments
from opscope.recording.decoded import read_decoded
from opscope.recording.recovered import about_of, recover
from opscope.storage.processes import read_journal
from support.corruptions import damage
from support.damaged_bytes import damage_bytes
from support.left_samples import write_samples
from torture.cases import chosen, in_use_bytes, parser, run_cases, tell

SPARE_BYTES = 256 << 20
LIMIT_S = 30.0


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
    "stream": 25, "tasks": 12, "copy": 30, "state": 24, "segments": 1, "ring": 2, "spool": 2,
    "journal": 4,
}  # fmt: skip
"""How many of a hundred cases are of a kind."""


def kinds() -> tuple[str, ...]:
    """In the order of cases."""
    found = [kind for kind, weight in _WEIGHTS.items() for _ in range(weight)]
    random.Random(0).shuffle(found)
    return tuple(found)


def _damage_state(draw: random.Random, folder: Path) -> str:
    """In a file that is whole."""
    last = sorted(segments.segments_folder(_recording(folder)).iterdir())[-1]
    content = bytearray((last / "state").read_bytes())
    done = damage_bytes(draw, content)
    (last / "state").write_bytes(content)
    return done


def run_case(seed: int, samples: Path, work: Path, kind: str, number: int) -> str:
    """One case; returns what became of it."""
    draw = random.Random(f"{seed} {kind} {number}")
    folder = work / f"{kind}-{number}"
    shutil.copytree(samples / kind, folder)
    done = _damage_state(draw, folder) if kind == "state" else damage(draw, folder)
    print(done, flush=True)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    limit = in_use_bytes() + 2 * size + SPARE_BYTES
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


def main() -> int:
    """The program; returns its exit code."""
    made = parser(__doc__, count=2000)
    made.add_argument("--samples", type=Path, help="made before, or to be kept there")
    options = made.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        samples = options.samples or work / "samples"
        if not samples.exists():
            samples.mkdir()
            write_samples(samples)
        cases = chosen(options, kinds())
        found = run_cases(
            work,
            cases,
            lambda *case: run_case(options.seed, samples, work, *case),
            options.workers,
        )
        return tell(found, options.seed)


if __name__ == "__main__":
    sys.exit(main())
