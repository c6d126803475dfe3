"""Files of recordings that did not end, damaged at random, each read as opscope would.

    cd tests && ../.venv/bin/python -m torture.left_files --count 100000 --seed 7
    cd tests && ../.venv/bin/python -m torture.left_files --only stream:41 --seed 7

Half a minute of a processor, or more memory than twice the file and 256 MiB beyond what the process
had, is a finding, too: see ``cases.py``.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pandas  # noqa: F401  which pyarrow imports where it can, and takes address space for
import pyarrow.dataset  # noqa: F401

from opscope import _native
from opscope.base.untrusted_files import reading
from opscope.errors import OpscopeError
from opscope.live import recovery
from opscope.live.flight.write_dump import write_dump
from opscope.live.recovery import dump_ring
from opscope.recording import segments
from opscope.recording.decoded import read_decoded
from opscope.recording.recovered import about_of, recover
from opscope.storage.processes import read_journal
from support.corruptions import damage
from support.damaged_bytes import damage_bytes
from torture.cases import chosen, in_use_bytes, parser, run_cases, tell

KINDS = ("stream", "tasks", "copy", "state", "segments", "ring", "spool", "journal")

_MODEL = """
import asyncio, gc, os, sys, torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
def step(number):
    with torch.profiler.record_function(f"ProfilerStep#{number}"):
        x = torch.randn(4, 8)
        loss = model(torch.cat([x, x]).split([4, 4])[0]).sum() * 1.5
        loss.backward()
        optimizer.step(); optimizer.zero_grad()
        torch.stack([torch.ones(2, dtype=torch.complex64), torch.zeros(2)]).tolist()
    gc.collect(0)
"""
_STREAMED = (
    _MODEL
    + """
import opscope
step(0)
profile = opscope.profile(stream_to=sys.argv[1], record_shapes=True, profile_memory=True,
                          with_stack=True, with_modules=True, keeper=False)
profile.start()
for number in range(3): step(number)
os.kill(os.getpid(), 9)
"""
)
_TASKS = (
    _MODEL
    + """
async def one(number):
    with torch.profiler.record_function(f"task {number}"):
        for _ in range(4):
            torch.ones(2).add(1)
            await asyncio.sleep(0)
async def all():
    await asyncio.gather(*map(one, range(5)))
import opscope
asyncio.run(all())
profile = opscope.profile(stream_to=sys.argv[1], record_shapes=True, with_asyncio=True,
                          keeper=False)
profile.start()
asyncio.run(all())
os.kill(os.getpid(), 9)
"""
)
_FLYING = (
    _MODEL
    + """
import opscope, shutil, time
from opscope import _native
from opscope.base.artefacts import LeftKind, find, in_memory
def ring():
    for one in find(sys.argv[1], LeftKind.RING):
        return os.fspath((in_memory(one) or one).path)
def is_described(name):
    try:
        return bool(_native.read_stream(name).about)
    except ValueError:
        return False
with opscope.flight_recorder(directory=sys.argv[1], record_shapes=True, profile_memory=True,
                             with_modules=True, budget=None, max_memory="4MiB", triggers=[]):
    while not (name := ring()) or not is_described(name):
        step(1)
        time.sleep(0.01)
    for number in range(3): step(number)
    shutil.copy(name, sys.argv[2])  # the file, not the note of it
"""
)


def write_samples(folder: Path) -> None:
    """A folder for each of ``KINDS``."""
    recorded = _recorded(folder / "recorded", _STREAMED)
    _place(folder / "stream", recorded)
    _place(folder / "tasks", _recorded(folder / "awaited", _TASKS))
    (folder / "copy").mkdir()
    with open(folder / "copy" / "log", "wb") as file:
        assert _native.read_stream(os.fspath(recorded)).write_copy(file.fileno()) == 0
    for kind in ("segments", "state"):
        _drain(_place(folder / kind, recorded))
    _write_flight(folder)
    (folder / "journal").mkdir()
    (folder / "journal" / "processes.jsonl").write_text(_journal())


def _recorded(folder: Path, program: str) -> Path:
    subprocess.run([sys.executable, "-c", program, str(folder)], timeout=300, check=False)
    return next(folder.glob(".recording-*.opscope"))


def _place(folder: Path, recording: Path) -> Path:
    folder.mkdir()
    return Path(shutil.copy(recording, folder / recording.name))


def _drain(recording: Path) -> None:
    with mock.patch.multiple(segments, RECORDS=400, MARGIN_NS=0):
        segments.segments_folder(recording).mkdir()
        drain = segments.Drain(recording, about_of(recording)["prefixes"])
        assert drain.next() and drain.next()


def _write_flight(folder: Path) -> None:
    for name in ("flying", "ring", "left"):
        (folder / name).mkdir()
    command = [sys.executable, "-c", _FLYING, str(folder / "flying"), str(folder / "ring")]
    subprocess.run(command, timeout=300, check=True)
    ring = next((folder / "ring").iterdir())
    (folder / "spool").mkdir()
    with mock.patch.object(recovery, "write_dump") as write_dump:
        write_dump.side_effect = lambda spool: shutil.copytree(spool, folder / "spool" / spool.name)
        recovery.dump_ring(Path(shutil.copy(ring, folder / "left")))


def _journal() -> str:
    lines: list[dict[str, object]] = []
    for process in range(100, 105):
        began = {"process": process, "event": "began", "start": process, "parent": 99}
        lines.append({**began, "how": "forked", "time_ns": 10**18, "command": ["python", "a.py"]})
        lines.append({"process": process, "event": "recording", "part": process})
        lines.append({"process": process, "event": "ended", "how": "exited with code 0"})
    return "".join(json.dumps(line) + "\n" for line in lines)


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
