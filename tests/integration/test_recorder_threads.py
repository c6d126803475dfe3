"""Every thread of the process: many, short-lived, pooled, torch's own, and at work meanwhile."""

import os
import threading
from collections import Counter

import torch

import opscope
from opscope import _native
from opscope.recording.recorder import Recording
from opscope.recording.sources import RecordingOptions
from support.recorded import names, parents, record


def in_threads(count, work):
    """Run ``work(number)`` in threads of their own that all live at once; their errors are ours."""
    together, errors = threading.Barrier(count), []

    def run(number):
        together.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def live_briefly(*arguments, **options):
    """A thread that the system, too, has let go of afterwards: Python does so a moment earlier."""
    thread = threading.Thread(*arguments, **options)
    thread.start()
    thread.join()
    while os.path.exists(f"/proc/self/task/{thread.native_id}"):
        os.sched_yield()


def test_memory_of_threads_that_are_gone_is_used_again():
    def program():
        for _ in range(100):
            live_briefly(target=torch.ones, args=(1,))

    record(program)
    threads, mapped = (_native.statistics()[what] for what in ("threads", "mapped_bytes"))
    for _ in range(3):
        record(program)
    assert _native.statistics()["threads"] <= threads
    assert _native.statistics()["mapped_bytes"] <= mapped + (4 << 20)


def test_a_thread_that_dies_inside_a_span():
    entered = opscope.record_function("left by its thread")

    def work():
        entered.__enter__()
        torch.ones(1)

    def program():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        torch.zeros(1)

    trace = record(program)
    row = names(trace).index("left by its thread")
    assert trace.events["unfinished"][row]
    assert parents(trace)["aten::ones"] == "left by its thread"
    assert parents(trace)["aten::zeros"] == ""
    end_ns = trace.events["start_ns"][row] + trace.events["duration_ns"][row]
    assert end_ns == trace.metadata["end_ns"]
    entered.__exit__(None, None, None)


def test_only_the_thread_that_started_if_requested():
    options = RecordingOptions(all_threads=False, gc_pauses=False)
    recording = Recording(options)
    recording.start()
    torch.ones(1)
    in_threads(3, lambda number: torch.zeros(1))
    recording.stop()
    assert "aten::ones" in names(recording.trace)
    assert "aten::zeros" not in names(recording.trace)


def test_threads_at_work_while_a_recording_is_decoded_and_saved(tmp_path):
    stop, done = threading.Event(), Counter()

    def work(number):
        while not stop.is_set():
            with opscope.record_function("busy"):
                torch.ones(3).sum()
            done[number] += 1

    def look(number):
        try:
            for cycle in range(1000):
                if cycle > 9 and len(done) == 3:
                    break
                prof = opscope.profile(record_shapes=True, profile_memory=True)
                with prof:
                    for _ in range(50):
                        torch.full((3,), 1)
                prof.export_chrome_trace(tmp_path / f"{cycle}.json")
                events = prof.trace.events
                assert names(prof.trace).count("aten::full") == 50
                inside = events["parent"] >= 0
                starts = events["start_ns"]
                assert (starts[inside] >= starts[events["parent"][inside]]).all()
                assert (events["duration_ns"] >= 0).all()
                # Names were not mixed up between threads.
                known = {"busy", "aten::ones", "aten::empty", "aten::fill_", "aten::sum"}
                known |= {"aten::full", "aten::as_strided"}
                assert {n for n in names(prof.trace) if not n.startswith("gc: ")} <= known
        finally:
            stop.set()

    in_threads(4, lambda number: look(number) if number == 0 else work(number))
    assert sorted(done) == [1, 2, 3]


@torch.jit.script
def negate_many_times(x: torch.Tensor, times: int) -> torch.Tensor:
    for _ in range(times):
        x = x.neg()
    return x


def test_windows_that_want_something_else_come_and_go_and_no_operator_is_missed():
    """In a loop without the GIL, so that there are operators at every moment of it."""
    argument, times = torch.ones(1), 0
    negate_many_times(argument, 1)
    ended = threading.Event()

    def negate():
        nonlocal times
        while not ended.is_set():
            negate_many_times(argument, 1000)
            times += 1000

    thread = threading.Thread(target=negate)
    with opscope.profile() as prof:
        thread.start()
        for number in range(100):
            with opscope.profile(record_shapes=number % 2 == 0, record_outputs=True):
                pass
        ended.set()
        thread.join()
    assert [event.name for event in prof.events()].count("aten::neg") == times
