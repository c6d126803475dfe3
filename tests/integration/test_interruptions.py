"""An exception at any instruction of starting, stepping and stopping."""

import contextlib
import ctypes
import gc
import random
import sys
import threading

import pytest
import torch
from tests.support.interruptions import Interruption, interrupt_at, places, what_is_on

import opscope
from opscope.recording.compiled import graphs
from support.recorded import names

EVERYTHING = {
    "record_shapes": True,
    "profile_memory": True,
    "with_stack": True,
    "with_modules": True,
}
STEP = 20
"""Of the instructions of what takes long each so-manieth, from one on that differs each time."""

OPTIONS = [({}, 7), (EVERYTHING, STEP)]


@pytest.fixture(autouse=True)
def no_graphs(monkeypatch):
    """Of earlier tests: each has a thousand instructions of its own that could be interrupted."""
    monkeypatch.setattr(graphs, "_loaded_modules", list)


@pytest.fixture(autouse=True)
def a_first_recording(no_graphs):
    """What is done once per process is no part of what is interrupted."""
    with opscope.profile(**EVERYTHING) as prof:
        torch.ones(1)
    prof.trace  # noqa: B018


def first_of(step):
    return random.randint(1, step)


def records_exactly(**options):
    with opscope.profile(**options) as prof:
        for _ in range(3):
            torch.ones(1)
    events, found = prof.trace.events, names(prof.trace)
    rows = [row for row, name in enumerate(found) if name == "aten::ones"]
    return len(rows) == 3 and not events["unfinished"][rows].any()


@pytest.mark.parametrize(("options", "step"), OPTIONS)
def test_an_interrupted_start_leaves_a_profile_that_can_be_stopped_or_none(options, step):
    before = what_is_on()
    holder = []

    def start():
        holder[:] = [opscope.profile(**options)]
        holder[0].start()

    count = 0
    for count in places(start, step=step, first=first_of(step)):
        while holder:
            holder.pop().stop()
        assert what_is_on() == before, count
    holder.pop().stop()
    assert count > 300
    assert records_exactly(**options)


@pytest.mark.parametrize(("options", "step"), OPTIONS)
def test_a_with_block_that_is_interrupted_is_left(options, step):
    before = what_is_on()

    def enter_and_leave():
        with opscope.profile(**options):
            pass

    for place in places(enter_and_leave, step=step, first=first_of(step)):
        assert what_is_on() == before, place
    assert records_exactly(**options)


@pytest.mark.parametrize(("options", "step"), OPTIONS)
def test_an_interrupted_stop_loses_nothing(options, step):
    before = what_is_on()
    prof = opscope.profile(**options)
    prof.start()
    torch.ones(1)
    place = first_of(step)
    while interrupt_at(place, prof.stop):
        running = prof._recording is not None
        if running:  # not begun to stop: it goes on
            prof.stop()
        assert "aten::ones" in names(prof.trace), place
        prof = opscope.profile(**options)
        assert what_is_on() == before, place
        prof.start()
        torch.ones(1)
        place += step
    assert place > 50
    del prof
    assert what_is_on() == before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in finalizers
def test_interrupted_steps_hand_over_every_cycle_once():
    before = what_is_on()
    place, has_more = first_of(STEP), True
    while has_more:
        handed = []
        prof = opscope.profile(
            schedule=opscope.schedule(wait=0, warmup=1, active=1),
            on_trace_ready=handed.append,  # not of Python, so not interrupted itself
            acc_events=True,
            **EVERYTHING,
        )
        with prof:
            prof.step()
            torch.ones(1)
            has_more = interrupt_at(place, prof.step)
            while prof.step_num < 4:
                prof.step()
        assert len(handed) == 2, place
        assert sum(event.name == "aten::ones" for event in prof.events()) == 1, place
        assert what_is_on()["wanted"] == before["wanted"], place
        place += STEP
    prof = None
    handed.clear()
    assert what_is_on() == before
    assert place > 100


def test_an_earlier_recording_outlives_an_interrupted_start():
    prof = opscope.profile()
    with prof:
        torch.ones(1)
    for place in places(prof.start, step=7, first=first_of(7)):
        if prof._recording is None:
            assert "aten::ones" in names(prof.trace), place
        else:
            prof.stop()
            with prof:
                torch.ones(1)
    prof.stop()


@pytest.fixture
def often_another_thread():
    """A thread that waits for the GIL soon gets it, though the other one never waits."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


class _Starts:
    """Starts and stops until enough exceptions have come in the middle of it: where is chance."""

    def __init__(self):
        self.count = self.interrupted = 0

    def go_on(self):
        return self.interrupted < 25 and self.count < 100_000

    def run(self):
        while self.go_on():
            with contextlib.suppress(Interruption):
                self._run_until_interrupted_elsewhere()

    def _run_until_interrupted_elsewhere(self):
        while self.go_on():
            self.count += 1
            prof = opscope.profile(**EVERYTHING)
            try:
                prof.start()
                prof.stop()
            except Interruption:
                self.interrupted += 1
                prof.stop()


def _interrupt_at_random(thread):
    while thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(Interruption)
        )
        thread.join(random.random() * 2e-3)


@pytest.fixture
def nobody_listens(monkeypatch):
    """What hits a thread outside of everything ends it, and the next one goes on. Pytest's own
    hooks would be hit as well."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)


@pytest.mark.usefixtures("often_another_thread", "nobody_listens")
def test_random_asynchronous_exceptions_in_another_thread():
    before = what_is_on()
    random.seed(3)
    starts = _Starts()
    while starts.go_on():
        thread = threading.Thread(target=starts.run)
        thread.start()
        _interrupt_at_random(thread)
    gc.collect()
    assert starts.interrupted == 25
    assert what_is_on() == before
    assert records_exactly(**EVERYTHING)
