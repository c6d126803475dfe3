"""Runs of asyncio tasks, also in windows that open and close meanwhile; no torch."""

import asyncio
import contextlib
import contextvars
import gc
import sys
import threading
import traceback

import pytest

from opscope import _native
from support.asyncio_runs import Recorded, gather_two, is_run, note, pause, step_twice, task
from support.record_python import WITHOUT_GIL, PythonWindow

pytest_plugins = ["support.without_torch"]
pytestmark = [
    pytest.mark.usefixtures("nothing_left_over", "no_torch"),
    pytest.mark.skipif(WITHOUT_GIL, reason="runs of tasks are seen with the GIL alone"),
]


def test_a_span_for_each_run_with_what_ran_in_it_its_task_and_how_long_it_had_waited():
    with Recorded() as recorded:
        asyncio.run(gather_two())
    assert recorded.runs() == [
        task("gather_two", "before"),
        task("step_twice", "a 1"),
        task("step_twice", "b 1"),
        task("step_twice", "a 2"),
        task("step_twice", "b 2"),
        task("gather_two", "after"),
    ]
    assert all(is_run(root) for root in recorded.roots)
    runs, events = recorded.table("task_runs"), recorded.table("events")
    assert runs["task"][:6] == [0, 1, 2, 1, 2, 0]
    end_ns = {}
    for event, number, waited_ns in zip(*runs.values(), strict=True):
        start_ns = events["start_ns"][event]
        assert waited_ns == (start_ns - end_ns[number] if number in end_ns else -1)
        end_ns[number] = start_ns + events["duration_ns"][event]


def test_names_and_places_of_tasks():
    async def named():
        await pause()
        asyncio.current_task().set_name("chosen later")
        await pause()

    async def main():
        tasks = [
            asyncio.create_task(named(), name=name) for name in ("Task-07", "Task-x", "chosen")
        ]
        default = asyncio.create_task(step_twice("c"))
        await asyncio.gather(*tasks, default)
        return default.get_name()

    with Recorded() as recorded:
        default = asyncio.run(main())
    main_name, *names = recorded.task_names()
    assert names == ["chosen later"] * 3 + [default] and main_name.startswith("Task-")
    tasks, frames = recorded.table("tasks"), recorded.table("frames")
    frame = tasks["frame"][1]
    assert recorded.text(frames["file"][frame]) == __file__
    assert frames["line"][frame] == named.__code__.co_firstlineno
    assert task(named.__qualname__) in recorded.runs()


def test_exceptions_and_cancellation_end_runs():
    async def fails():
        await pause()
        note("fails")
        raise ValueError("of the program")

    async def waits():
        try:
            await asyncio.Event().wait()
        finally:
            note("cancelled")

    async def main():
        failing, waiting = asyncio.create_task(fails()), asyncio.create_task(waits())
        await asyncio.wait([failing])
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        note(str(failing.exception()))

    with Recorded() as recorded:
        asyncio.run(main())
    here = main.__qualname__.removesuffix("main")
    assert recorded.runs() == [
        task(f"{here}main"),
        task(f"{here}fails"),
        task(f"{here}waits"),
        task(f"{here}fails", "fails"),
        task(f"{here}main"),
        task(f"{here}waits", "cancelled"),
        task(f"{here}main", "of the program"),
    ]
    assert not any(run.unfinished for run in recorded.roots)


def test_tasks_written_in_python():
    def factory(loop, coroutine, **options):
        return asyncio.tasks._PyTask(coroutine, loop=loop, **options)

    async def main():
        asyncio.get_running_loop().set_task_factory(factory)
        await asyncio.create_task(step_twice("a"))

    with Recorded() as recorded:
        asyncio.run(main())
    assert recorded.runs()[1:-1] == [task("step_twice", "a 1"), task("step_twice", "a 2")]
    assert len(recorded.task_names()) == 2


def test_tasks_at_addresses_that_others_had():
    async def once():
        await pause()

    async def main():
        for _ in range(300):
            await asyncio.create_task(once())

    with Recorded() as recorded:
        asyncio.run(main())
    runs = recorded.table("task_runs")
    per_task = [runs["task"].count(task) for task in (1, 150, 300)]
    assert per_task == [2, 2, 2]
    assert len(set(recorded.task_names())) == 301


def test_tasks_that_never_finish():
    async def forever():
        await asyncio.get_running_loop().create_future()

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # says that a task was never finished
    with Recorded() as recorded:
        for _ in range(3):
            waiting = loop.create_task(forever())
            loop.run_until_complete(asyncio.wait_for(asyncio.sleep(0), 60))
            del waiting
            gc.collect()
    loop.close()
    assert recorded.runs().count(task(forever.__qualname__)) == 3
    rows = recorded.table("task_runs")["task"]
    assert len(set(rows)) == len(recorded.table("tasks")["name"]) == len(recorded.task_names())


VARIABLE = contextvars.ContextVar("VARIABLE", default=0)


async def observe():
    """What a program can see of its tasks."""
    current = asyncio.current_task()
    current.set_name("observed")
    seen = [current.get_name(), current.get_coro().__qualname__, type(current).__qualname__]
    VARIABLE.set(VARIABLE.get() + 1)

    async def fails():
        seen.append(VARIABLE.get())
        VARIABLE.set(100)
        await pause()
        raise KeyError("of the program")

    try:
        await asyncio.create_task(fails())
    except KeyError as error:
        seen += [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    seen += [frame.name for frame in traceback.extract_stack() if "opscope" not in frame.filename]
    run = contextvars.Context.run
    seen += [VARIABLE.get(), repr(run), asyncio.Handle._run.__qualname__, len(asyncio.all_tasks())]
    return [*seen, repr(vars(current)) if hasattr(current, "__dict__") else ""]


def test_the_program_sees_nothing_of_it():
    plain = asyncio.run(observe())
    run = contextvars.Context.run, asyncio.Handle._run
    with Recorded():
        recorded = asyncio.run(observe())
        assert (contextvars.Context.run, asyncio.Handle._run) == run
    assert recorded == plain


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
