"""Runs of asyncio tasks in windows that open and close meanwhile, and on several threads."""

import asyncio
import gc
import sys
import threading

import pytest

from opscope import _native
from support.asyncio_runs import Recorded, gather_two, is_run, note, pause, step_twice, task
from support.record_python import WITHOUT_GIL, PythonWindow

pytest_plugins = ["support.without_torch"]
pytestmark = [
    pytest.mark.usefixtures("nothing_left_over", "no_torch"),
    pytest.mark.skipif(WITHOUT_GIL, reason="runs of tasks are seen with the GIL alone"),
]

HANGS_AFTER_S = 60


def test_an_annotation_over_an_await_is_in_each_run_of_its_task_and_in_no_other():
    async def holds():
        with _native.Annotation("outer"):
            await pause()
            with _native.Annotation("inner"):
                note("1")
                await pause()
                note("2")
            note("3")
        note("4")

    async def main():
        await asyncio.gather(holds(), step_twice("other"))

    with Recorded() as recorded:
        asyncio.run(main())
    holding = [run for run in recorded.runs() if "holds" in str(run)]
    assert [run[1:] for run in holding] == [
        ("outer",),
        (("outer", ("inner", "1")),),
        (("outer", ("inner", "2"), "3"), "4"),
    ]
    assert [run for run in recorded.runs() if "step_twice" in str(run)] == [
        task("step_twice", "other 1"),
        task("step_twice", "other 2"),
    ]
    spans = [call for root in recorded.roots for call in root.find_all()]
    assert not any(span.unfinished for span in spans)


def test_steps_of_the_program_contain_the_runs_of_all_tasks():
    async def main():
        with _native.Annotation("ProfilerStep#0"):
            await asyncio.gather(step_twice("a"))

    with Recorded() as recorded:
        asyncio.run(main())
    (step,) = [call for root in recorded.roots for call in root.find("ProfilerStep#0")]
    assert [run.name for run in step.find_all() if is_run(run)] == [task("step_twice")] * 2


def test_other_windows_see_annotations_as_they_are():
    async def main():
        with _native.Annotation("long"):
            await pause()

    plain = PythonWindow("ANNOTATIONS")
    with Recorded() as recorded:
        asyncio.run(main())
    assert [root.shape() for root in plain.end()] == ["long"]
    assert [run[1:] for run in recorded.runs()] == [("long",), ("long",)]


def test_a_window_that_opens_in_a_run_has_what_is_left_of_it():
    async def main():
        note("before")
        recorded = Recorded().__enter__()
        note("1")
        await asyncio.gather(step_twice("a"))
        note("2")
        recorded.__exit__()
        return recorded

    recorded = asyncio.run(main())
    name = main.__qualname__
    assert recorded.runs() == [
        task(name, "1"),
        task("step_twice", "a 1"),
        task("step_twice", "a 2"),
        task(name, "2"),
    ]
    ends = [run.unfinished for root in recorded.roots for run in root.find_all() if is_run(run)]
    assert ends == [False, False, False, True]
    assert recorded.table("task_runs")["task"] == [0, 1, 1, 0]


def test_loops_of_other_threads_whenever_their_tasks_began():
    begun, opened, done = (threading.Event() for _ in range(3))

    async def elsewhere():
        begun.set()
        opened.wait(HANGS_AFTER_S)
        note("its first run")
        await pause()
        note("its second run")

    def run():
        asyncio.run(elsewhere())
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(HANGS_AFTER_S)
    with Recorded() as recorded:
        opened.set()
        asyncio.run(gather_two())
        assert done.wait(HANGS_AFTER_S)
        thread.join()
    name = elsewhere.__qualname__
    of_thread = [run for run in recorded.runs() if name in str(run)]
    assert of_thread == [task(name, "its first run"), task(name, "its second run")]
    assert len(recorded.runs()) == 6 + 2
    threads = {run.thread for root in recorded.roots for run in root.find_all() if is_run(run)}
    assert len(threads) == 2


def test_one_thread_only():
    thread = threading.Thread(target=asyncio.run, args=(gather_two(),))
    with Recorded(all_threads=False) as recorded:
        thread.start()
        thread.join()
        asyncio.run(step_twice("here"))
    assert recorded.runs() == [task("step_twice", "here 1"), task("step_twice", "here 2")]


def test_a_window_that_closes_as_a_task_is_about_to_run():
    """Noting a new task may collect garbage, and a finalizer may close the last window."""
    run = asyncio.Handle._run.__code__
    thresholds = gc.get_threshold()

    async def once():
        note("runs")

    async def close_in_the_collection(number):
        recorded, begun = Recorded(), []

        def close(phase, info):
            if phase == "start" and sys._getframe(1).f_code is run:
                begun.append(phase)
                if len(begun) == number:
                    recorded.window.close()

        task = asyncio.create_task(once())
        gc.callbacks.append(close)
        gc.set_threshold(1)
        try:
            await task
        finally:
            gc.set_threshold(*thresholds)
            gc.callbacks.remove(close)
        recorded.window.end()
        return len(begun)

    async def main():
        return [await close_in_the_collection(number) for number in range(1, 12)]

    collections = asyncio.run(main())
    assert len(collections) == 11
    if sys.version_info < (3, 12):  # later ones do not collect in the middle of C code
        assert max(collections) > 1
