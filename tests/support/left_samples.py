"""One small sample of each file that a recording leaves in a format of opscope's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

from opscope import _native
from opscope.live import recovery
from opscope.recording import segments
from opscope.recording.recovered import about_of

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
