"""Jobs that others recorded on GPUs, played to the collector as several CUDA releases would."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.recorded_gpu.__main__ import JOBS
from tests.recorded_gpu.compare import ROUNDING_NS, clock_error_ns, differences, kept_of
from tests.recorded_gpu.job import KERNEL, Job, Work, read_job
from tests.recorded_gpu.play import Played, play
from tests.support.fake_cupti import FakeCupti, build_fake, header_folders
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity

import opscope
from opscope.api.trace import Trace
from support.torch_processes import run_torch

ROOT = Path(__file__).parents[2]
BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]


RELEASES = sorted(header_folders().keys() - {"toolkit"}, key=float) or sorted(header_folders())


@pytest.mark.skipif(not RELEASES, reason="no CUPTI headers: `make install` gets them")
@pytest.mark.parametrize("release", RELEASES)
def test_traces_equal_the_files_whatever_cupti_does(release: str) -> None:
    """As the newest release reports them all files, and launches besides; others the small ones."""
    is_newest = release == RELEASES[-1]
    files = [file for file in JOBS.glob("*.json.gz") if is_newest or file.stat().st_size < 30_000]
    done = run_torch(
        *("-m", "tests.recorded_gpu", "--inside", build_fake(header_folders()[release])),
        *("--launches", 6000 if is_newest else 0, *files),
        cwd=ROOT,
        added={"CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    played = [line for line in done.stdout.splitlines() if ": equal" in line or ", equal" in line]
    assert len(played) == 5 * len(files) > 20
    assert done.stdout.count("accounts exact") == 5 * is_newest


def recorded(fake: FakeCupti, name: str, **settings: Any) -> tuple[Played, Trace]:
    config = _ExperimentalConfig(enable_cuda_sync_events=True)
    with opscope.profile(activities=BOTH, experimental_config=config) as prof:
        played = play(read_job(JOBS / name), fake, **settings)
    return played, prof.trace


def test_the_comparison_sees_every_difference(fake: FakeCupti) -> None:
    played, trace = recorded(fake, "a100_event_sync.json.gz")
    assert differences(played, trace) == []
    row = next(row for row, work in enumerate(played.work) if work.grid)
    waiting = next(row for row, work in enumerate(played.work) if work.waits_for >= 0)
    kernel, wait = played.work[row], played.work[waiting]
    late_ns = ROUNDING_NS + math.ceil(clock_error_ns(trace)) + 2  # more than is put down to clocks
    changes: list[tuple[int, dict[str, Any]]] = [
        (row, {"name": "another"}),
        (row, {"end_ns": kernel.end_ns + 2 * ROUNDING_NS + 1}),
        (row, {"start_ns": kernel.start_ns + late_ns, "end_ns": kernel.end_ns + late_ns}),
        (row, {"stream": kernel.stream + 1}),
        (row, {"device": 1}),
        (row, {"context": 5}),
        (row, {"correlation": kernel.correlation + 100_000}),
        (row, {"grid": (1, 2, 3)}),
        (row, {"block": (1, 2, 3)}),
        (row, {"registers": kernel.registers + 1}),
        (row, {"shared_memory": kernel.shared_memory + 1}),
        (row, {"size_bytes": 1}),
        (row, {"graph": 1}),
        (row, {"graph_node": 1}),
        (waiting, {"waits_for": wait.waits_for + 1}),
        (waiting, {"waits_for_stream": wait.waits_for_stream + 1}),
    ]
    for place, change in changes:
        work = list(played.work)
        work[place] = replace(work[place], **change)
        assert differences(replace(played, work=work), trace), change
    missing = replace(played, work=played.work[1:])
    assert "activities instead of" in differences(missing, trace)[0]
    moved = {k: ["another", *names] for k, names in played.around.items()}
    assert "around is" in differences(replace(played, around=moved), trace)[0]
    assert differences(replace(played, calls={}), trace)[-1].startswith("calls: ")
    assert kept_of(missing, trace)[1]


def test_captures_are_compared_too(fake: FakeCupti) -> None:
    played, trace = recorded(fake, "a100_event_sync.json.gz", as_graph=True)
    assert played.captured
    assert differences(played, trace) == []
    assert differences(replace(played, captured={}), trace)


def test_work_whose_launch_was_lost_and_that_begins_later_is_counted(fake: FakeCupti) -> None:
    begin_ns = (0, 10_000_000_000)  # the second begins when nobody records any more
    work = [Work(KERNEL, "k", at, at + 1000, 0, 1, 7, 5, -1) for at in begin_ns]
    with opscope.profile(activities=BOTH) as prof:
        play(Job(work=work), fake)
    counts = prof.trace.ledger["gpu"]
    assert counts["left out: began after the recording, launch unknown"] == 1
    assert counts["work without its launch"] == 1
    assert counts["work"] == counts["recorded"] == 1
