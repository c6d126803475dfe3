"""Playing files and launches to this process' collector: one library per process, as with CUPTI."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch
from tests.recorded_gpu.compare import differences, kept_of, told_of_noise
from tests.recorded_gpu.job import SYNCHRONISATION, Job, read_job
from tests.recorded_gpu.play import Played, play
from tests.support.fake_cupti import FakeCupti
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity

import opscope
from opscope import _native
from opscope.api.trace import Trace
from opscope.columns.device_rules import check_device_rules
from opscope.recording.gpu import devices as gpu_devices

MISBEHAVIOURS: dict[str, dict[str, int]] = {
    "in order": {},
    "late, shuffled, by 4 threads": {"shuffled": 7, "threads": 4, "records_per_buffer": 37},
    "a device and context per stream": {"shuffled": 9, "threads": 3, "apart": 1},
    "kernels as a graph": {"shuffled": 5, "threads": 2, "as graph": 1},
    "1 of 13 lost": {"shuffled": 3, "threads": 3, "records_per_buffer": 101, "lose_one_in": 13},
}
"""What CUPTI is free to do, and settings of the stand-in for it."""

LAUNCHING: dict[str, dict[str, int]] = {
    **{how: set_ for how, set_ in MISBEHAVIOURS.items() if not {"as graph", "apart"} & set_.keys()},
    "little room for records": {"log bytes": 1 << 24},
    "one buffer": {"buffer bytes": 1, "threads": 4},
}
"""The same for many launches; the last needs a CUPTI that may be refused a buffer."""

_BUFFER_BYTES, _LOG_BYTES = 1 << 28, 1 << 30

_BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]


def play_files(library: str, files: Iterable[Path], launches: int) -> int:
    """Play and print; 1 if anything differs."""
    os.environ["OPSCOPE_CUPTI"] = library
    torch.version.cuda = None  # the stand-in plays no subscription of torch's own
    gpu_devices.set_up_gpu.cache_clear()
    fake = FakeCupti(library)
    failed = False
    for file in files:
        job = read_job(file)
        for how, settings in MISBEHAVIOURS.items():
            wrong = played_wrong(job, fake, settings)
            what = "; ".join(wrong) if wrong else "equal"
            print(f"{file.name}, {how}: {len(job.work):,} activities, {what}", flush=True)
            failed |= bool(wrong)
        print("   invented: " + ", ".join(f"{w} ({n:,})" for w, n in job.invented.items() if n))
    if launches:
        for how, settings in LAUNCHING.items():
            start = time.perf_counter()
            wrong = launched_wrong(launches, fake, settings)
            took = time.perf_counter() - start
            what = "; ".join(wrong) if wrong else "accounts exact"
            print(f"{launches:,} launches, {how}: {what}; {took:.1f} s", flush=True)
            failed |= bool(wrong)
    return int(failed)


def played_wrong(job: Job, fake: FakeCupti, settings: dict[str, int]) -> list[str]:
    """Play a job under ``settings`` of the stand-in; what the trace has wrong, in words."""
    if "apart" in settings:
        job = _apart(job)
    trace, played, counts = _recorded(job, fake, settings)
    wrong = _account_differences(trace, played, counts)
    if settings.get("lose_one_in"):
        return [*wrong, *_lossy_differences(played, trace)]
    early = check_device_rules(trace).broken["begins before its launch"].count
    return [
        *wrong,
        *differences(played, trace),
        *([f"{early} begin before their launch"] if early else []),
    ]


def _apart(job: Job) -> Job:
    """With each stream on a device of its own: files of one process have one device and context."""
    with_work = dict.fromkeys(work.stream for work in job.work if work.kind != SYNCHRONISATION)
    place = {stream: row for row, stream in enumerate(with_work)}
    rows = [place.get(one.stream, 0) for one in job.work]
    work = [
        replace(one, device=row, context=10 + row) for one, row in zip(job.work, rows, strict=True)
    ]
    return replace(job, work=work)


def _recorded(
    job: Job, fake: FakeCupti, settings: dict[str, int]
) -> tuple[Trace, Played, dict[str, int]]:
    fake.reset()
    for name, value in settings.items():
        fake.set(name, value)
    if "records_per_buffer" in settings:  # more buffers would be refused
        records = len(job.work) + sum(map(len, job.threads.values()))
        fake.set("records_per_buffer", max(settings["records_per_buffer"], records // 30))
    with_events = not settings.get("lose_one_in")  # nobody counts which of these are lost
    config = _ExperimentalConfig(enable_cuda_sync_events=with_events)
    with opscope.profile(activities=_BOTH, experimental_config=config) as prof:
        played = play(job, fake, with_events=with_events, as_graph="as graph" in settings)
    trace = prof.trace
    events = len({work.waits_for for work in job.work if work.waits_for >= 0}) if with_events else 0
    counts = {name: fake.count(name) for name in ("delivered", "lost")}
    return trace, played, {**counts, "events": events}


def _account_differences(trace: Trace, played: Played, counts: dict[str, int]) -> list[str]:
    """Every record that was played is in the trace or in its ledger."""
    ledger = trace.ledger["gpu"]
    noise = int(ledger["left out: calls without information (cudaGetDevice)"])
    quiet = told_of_noise(played) if noise == 0 else 0
    late = int(ledger["left out: began after the recording, launch unknown"])
    no_room = int(ledger["dropped: memory budget"])
    told = int(ledger["recorded"]) + noise + counts["events"] + late + no_room
    lost = counts["lost"] + no_room
    found = {
        "lost": (int(ledger["dropped: by CUPTI, no buffer free"]), counts["lost"]),
        "delivered": (told, counts["delivered"]),
        "played": (counts["delivered"] + counts["lost"] + quiet, played.records),
        "requested": (int(ledger["requested"]), int(ledger["recorded"]) + lost),
    }
    return [
        f"{what}: {is_}, not {should}" for what, (is_, should) in found.items() if is_ != should
    ]


def _lossy_differences(played: Played, trace: Trace) -> list[str]:
    kept, wrong = kept_of(played, trace)
    calls = len(trace.table("runtime_calls"))
    if kept + calls != int(trace.ledger["gpu"]["recorded"]):
        wrong.append(f"{kept} activities and {calls} calls are not what was recorded")
    return wrong


def launched_wrong(launches: int, fake: FakeCupti, settings: dict[str, int]) -> list[str]:
    """Launch so often; what the ledger has wrong, in words."""
    fake.reset()
    for name, value in settings.items():
        fake.set(name, value)
    if "records_per_buffer" in settings:
        fake.set("records_per_buffer", 5003)
    _native.set_gpu_budget(
        settings.get("buffer bytes", _BUFFER_BYTES), settings.get("log bytes", _LOG_BYTES)
    )
    with opscope.profile(activities=_BOTH) as prof:
        fake.library.fake_launch_many(b"tiny", launches, 5, 100)
    trace = prof.trace
    counts = {name: fake.count(name) for name in ("delivered", "lost")}
    wrong = _account_differences(trace, Played(records=2 * launches), {**counts, "events": 0})
    rows = len(trace.table("gpu")) + len(trace.table("runtime_calls"))
    kept = counts["delivered"] - int(trace.ledger["gpu"]["dropped: memory budget"])
    if rows != kept:
        wrong.append(f"{rows:,} rows of {kept:,} records that there was room for")
    _native.set_gpu_budget(_BUFFER_BYTES, _LOG_BYTES)
    return wrong
