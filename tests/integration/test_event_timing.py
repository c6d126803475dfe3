"""Timing annotations with CUDA events where CUPTI cannot be used; the events need no device."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.fake_cupti import FakeCupti
from torch.profiler import ProfilerActivity

import opscope
from opscope.recording import event_timing
from opscope.trace.schema import EventKind
from opscope.trace.trace import Trace

BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
LABEL = event_timing.LABEL


class CountedEvents:
    """Events on one stream, each 1000 ns after the one before."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.is_capturing = False

    def record(self) -> tuple[Any, int, int] | None:
        self.now_ns += 1000
        return None if self.is_capturing else (self.now_ns, 0, 7)

    def elapsed_ns(self, begin: Any, end: Any) -> int:
        return int(end - begin)

    def wait(self) -> None:
        pass


@pytest.fixture
def events(fake: FakeCupti, monkeypatch: pytest.MonkeyPatch) -> Iterator[CountedEvents]:
    fake.set("subscribe_error", 35)
    events = CountedEvents()
    monkeypatch.setattr(event_timing, "event_source", lambda: events)
    before = opscope.record_function.__enter__, torch.profiler.record_function.__enter__
    yield events
    assert (opscope.record_function.__enter__, torch.profiler.record_function.__enter__) == before


def timed(trace: Trace) -> dict[str, tuple[int, str]]:
    """By name of what was timed: the time, and the name of the event it is linked to."""
    gpu = trace.table("gpu")
    assert (gpu["kind"] == 4).all()
    assert (gpu["stream"] == 7).all()
    launches = gpu["launch"].tolist()
    assert all(trace.events["kind"][row] == EventKind.ANNOTATION for row in launches)
    return {
        trace.names[gpu["name"][row]]: (int(gpu["duration_ns"][row]), trace.event_name(launch))
        for row, launch in enumerate(launches)
    }


def test_annotations_are_timed_and_say_how(events: CountedEvents, tmp_path: Path) -> None:
    @opscope.record_function("decorated")
    def decorated() -> None:
        torch.ones(1)

    steps = opscope.schedule(wait=0, warmup=1, active=1, repeat=1)
    settings = {"cuda_events": True, "schedule": steps, "with_stack": True}
    with opscope.profile(activities=BOTH, **settings) as prof:
        prof.step()
        with opscope.record_function("outer"), torch.profiler.record_function("inner"):
            torch.ones(1)
        decorated()
        prof.step()
    trace = prof.trace
    found = timed(trace)
    assert found == {
        "ProfilerStep#1" + LABEL: (7000, "ProfilerStep#1"),
        "outer" + LABEL: (3000, "outer"),
        "inner" + LABEL: (1000, "inner"),
        "decorated" + LABEL: (1000, "decorated"),
    }
    # AND everything that shows them says what they are
    said = trace.ledger["gpu"]
    assert said["annotations timed by CUDA events"] == 4
    assert trace.metadata["gpu"]["timing"] == "CUDA events around annotations"
    table = prof.key_averages().table()
    assert "timed instead: CUDA events around annotations, not kernels" in table
    averages = {average.key: average for average in prof.key_averages()}
    assert averages["outer" + LABEL].self_device_time_total == 3.0
    assert averages["outer"].device_time_total == 0
    prof.export_chrome_trace(tmp_path / "x.json")
    written = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    spans = [e["name"] for e in written if e.get("cat") == "gpu_user_annotation"]
    assert sorted(spans) == sorted(found)
    assert not any(e.get("cat") == "kernel" for e in written)


def test_nothing_is_timed_unless_asked_for(events: CountedEvents) -> None:
    with opscope.profile(activities=BOTH) as prof, opscope.record_function("outer"):
        torch.ones(1)
    assert len(prof.trace.table("gpu")) == 0
    assert events.now_ns == 0


def test_events_are_not_used_where_cupti_works(fake: FakeCupti, events: CountedEvents) -> None:
    fake.set("subscribe_error", 0)
    settings = {"activities": BOTH, "cuda_events": True}
    with opscope.profile(**settings) as prof, opscope.record_function("outer"):
        fake.launch("kernel")
    assert events.now_ns == 0
    assert "timing" not in prof.trace.metadata["gpu"]


def test_the_environment_can_ask_for_it(
    events: CountedEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPSCOPE_CUDA_EVENTS", "1")
    with opscope.profile(activities=BOTH) as prof, opscope.record_function("outer"):
        pass
    assert list(timed(prof.trace)) == ["outer" + LABEL]


def test_what_cannot_be_timed_is_counted(events: CountedEvents) -> None:
    with opscope.profile(activities=BOTH, cuda_events=True) as prof:
        with opscope.record_function("timed"):
            events.is_capturing = True
            with opscope.record_function("captured"):
                pass
            events.is_capturing = False
        unfinished = opscope.record_function("unfinished")
        unfinished.__enter__()
    unfinished.__exit__(None, None, None)
    assert list(timed(prof.trace)) == ["timed" + LABEL]
    assert prof.trace.ledger["gpu"]["annotations not timed"] == 2


def test_threads_and_repeats_are_told_apart(events: CountedEvents) -> None:
    def work() -> None:
        for _ in range(2):
            with opscope.record_function("again"):
                pass

    with opscope.profile(activities=BOTH, cuda_events=True) as prof:
        work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    launches = prof.trace.table("gpu")["launch"]
    assert len(set(launches.tolist())) == 4
    assert (prof.trace.table("gpu")["duration_ns"] == 1000).all()


def test_only_one_recording_times_at_once(events: CountedEvents) -> None:
    outer, inner = (opscope.profile(activities=BOTH, cuda_events=True) for _ in range(2))
    outer.start()
    inner.start()
    outer.stop()
    with opscope.record_function("late"):
        pass
    inner.stop()
    assert len(outer.trace.table("gpu")) == len(inner.trace.table("gpu")) == 0
    assert "timing" not in inner.trace.metadata["gpu"]
