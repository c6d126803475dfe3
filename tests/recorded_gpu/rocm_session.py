"""Playing files of ROCm jobs to this process' collector, with roctracer as its source."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tests.recorded_gpu.compare import differences
from tests.recorded_gpu.job import COPY, Job, Work, read_job
from tests.recorded_gpu.play import Played, play
from tests.support.fake_roctracer import FakeRoctracer, build_fake_roctracer
from torch.profiler import ProfilerActivity

import opscope
from opscope.trace.device_rules import check_device_rules
from opscope.trace.trace import Trace

_BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
_SHUFFLED = {"shuffled": 7, "threads": 4, "records_per_buffer": 3}
CLOCK_ERROR_NS = 200
"""Of roctracer's clock, which is compared with the recorder's at the beginning and the end."""

_SILENT = ("hipGetDevice", "hipSetDevice", "hipGetLastError", "hipPeekAtLastError")


def play_rocm_files(files: Iterable[Path]) -> int:
    """Play and print; 1 if anything differs."""
    library = build_fake_roctracer()
    os.environ["OPSCOPE_ROCTRACER"] = str(library)
    fake = FakeRoctracer(library)
    failed = False
    for refusal in ({"no_pool": 1}, {"no_domain": 3}):
        wrong = _refused_wrong(fake, refusal)
        failed |= bool(wrong)
        print(f"{refusal}: {wrong or 'told'}", flush=True)
    for file in files:
        for how, settings in {"in order": {}, "shuffled, by 4 threads": _SHUFFLED}.items():
            wrong = played_wrong(read_job(file), fake, settings)
            failed |= bool(wrong)
            print(f"{file.name}, {how}: {'; '.join(wrong) or 'equal'}", flush=True)
    return int(failed)


def _refused_wrong(fake: FakeRoctracer, refusal: dict[str, int]) -> list[str]:
    """A roctracer that refuses is said, and the CPU is recorded all the same."""
    fake.reset()
    for name, value in refusal.items():
        fake.set(name, value)
    with opscope.profile(activities=_BOTH) as prof, opscope.record_function("step"):
        pass
    told = prof.trace.metadata["gpu"]["unavailable"]
    left = fake.count("pools") + fake.count("domains")
    wrong = [] if "refused by the test" in told else [f"it says {told}"]
    return [*wrong, "something was left on"] if left else wrong


def played_wrong(job: Job, fake: FakeRoctracer, settings: dict[str, int]) -> list[str]:
    """What the trace of a job has otherwise than its file."""
    fake.reset()
    for name, value in settings.items():
        fake.set(name, value)
    with opscope.profile(activities=_BOTH) as prof:
        played = play(job, fake, with_events=False)
    trace = prof.trace
    known = replace(played, work=[_as_roctracer_tells(work) for work in played.work])
    known = replace(known, calls={k: c for k, c in known.calls.items() if c.name not in _SILENT})
    early = check_device_rules(trace).before_launch
    return [
        *differences(known, trace, rounding_ns=CLOCK_ERROR_NS),
        *_account_wrong(trace, played, fake),
        *([f"{early} begin before their launch"] if early else []),
    ]


def _as_roctracer_tells(work: Work) -> Work:
    """Without contexts, and without knowing what memory of the host a copy is of."""
    name = work.name.replace("Host", "Unknown") if work.kind == COPY else work.name
    return replace(work, context=0, name=name)


def _account_wrong(trace: Trace, played: Played, fake: FakeRoctracer) -> list[str]:
    ledger = trace.ledger["gpu"]
    noise = int(ledger["left out: calls that tell nothing (cudaGetDevice)"])
    told = int(ledger["recorded"]) + noise
    counts = {"delivered": fake.count("delivered"), "played": played.records, "told": told}
    wrong = [] if len(set(counts.values())) == 1 else [f"accounts differ: {counts}"]
    about = trace.metadata["gpu"]
    if about["clock"] != "converted" or "roctracer_version" not in about:
        wrong.append(f"the source is {about}")
    if fake.count("pools") or fake.count("domains"):
        wrong.append("something was left on")
    return wrong
