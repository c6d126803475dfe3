"""Runs of asyncio tasks, on any interpreter and without torch."""

import asyncio
import contextlib
import contextvars
import gc
import sys
import threading
import traceback

import pytest

from opscope import _native
from support.record_python import PythonWindow, leaf

pytest_plugins = ["support.without_torch"]
pytestmark = pytest.mark.usefixtures("nothing_left_over", "no_torch")

WANTS = ("ASYNCIO", "ANNOTATIONS")
HANGS_AFTER_S = 60


def note(name):
    """Something that runs."""
    with _native.Annotation(name):
        pass


async def pause():  # an await that is over at once
    await asyncio.sleep(0)


class Recorded:
    """A window while a program runs in it, and what it had afterwards."""

    def __init__(self, *wants, all_threads=True):
        self.window = PythonWindow(*(wants or WANTS), all_threads=all_threads)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.window.close()
        self.roots = self.window.read()

    def runs(self, prefix=""):
        """Shapes of the runs on all threads, without what asyncio itself runs at its end."""
        runs = [call for root in self.roots for call in root.find_all() if is_run(call)]
        return [
            run.shape() for run in runs if not run.name.startswith("asyncio task: BaseEventLoop")
        ]

    def table(self, name):
        """Columns of a table as lists."""
        tables = self.window.decoded.get("tables", self.window.decoded)
        return {column: values.tolist() for column, values in tables[name].items()}

    def text(self, row):
        """Of a row in names."""
        offsets, text = self.window.decoded["name_offsets"], self.window.decoded["name_text"]
        return text[offsets[row] : offsets[row + 1]].decode()

    def task_names(self):
        """Of all tasks but asyncio's own, in the order in which they ran first."""
        tasks, frames = self.table("tasks"), self.table("frames")
        files = [self.text(frames["file"][frame]) if frame >= 0 else "" for frame in tasks["frame"]]
        own = "base_events.py"
        rows = zip(tasks["name"], files, strict=True)
        return [self.text(name) for name, file in rows if not file.endswith(own)]


def is_run(call):
    return call.name.startswith("asyncio task: ")


def task(name, *children):
    """The shape of a run."""
    name = f"asyncio task: {name}"
    return (name, *children) if children else name


async def step_twice(name):
    note(f"{name} 1")
    await pause()
    note(f"{name} 2")


async def gather_two():
    note("before")
    await asyncio.gather(step_twice("a"), step_twice("b"))
    note("after")


def test_a_span_for_each_run_with_what_ran_in_it():
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


def test_which_task_each_run_is_of_and_how_long_it_had_waited():
    with Recorded() as recorded:
        asyncio.run(gather_two())
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


@pytest.mark.skipif(sys.version_info < (3, 11), reason="task groups are of Python 3.11")
def test_task_groups():
    async def main():
        async with asyncio.TaskGroup() as group:
            group.create_task(step_twice("a"))
            group.create_task(step_twice("b"))
        note("after")

    with Recorded() as recorded:
        asyncio.run(main())
    inside = [task("step_twice", f"{name} {i}") for i in (1, 2) for name in "ab"]
    assert recorded.runs()[1:-1] == inside
    assert recorded.runs()[-1] == task(main.__qualname__, "after")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks begin eagerly from Python 3.12 on")
def test_eager_tasks_run_within_the_task_that_makes_them():
    async def at_once():
        note("at once")

    async def outer():
        note("outer")
        inner = asyncio.create_task(step_twice("inner"))
        done = asyncio.create_task(at_once())
        assert done.done()
        note("outer goes on")
        await inner

    async def main():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        await asyncio.create_task(outer())

    with Recorded() as recorded:
        asyncio.run(main())
    here = main.__qualname__.removesuffix("main")
    first = task("step_twice", "inner 1")
    made = task(f"{here}outer", "outer", first, task(f"{here}at_once", "at once"), "outer goes on")
    assert recorded.runs() == [
        task(f"{here}main", made),
        made,
        first,
        task(f"{here}at_once", "at once"),
        task("step_twice", "inner 2"),
        task(f"{here}outer"),
        task(f"{here}main"),
    ]


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
    plain.close()
    assert [root.shape() for root in plain.read()] == ["long"]
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


def test_calls_of_a_run_that_was_there_before_are_in_it():
    async def main():
        recorded = Recorded("ASYNCIO", "PYTHON").__enter__()
        leaf()
        await pause()
        leaf()
        recorded.__exit__()
        return recorded

    recorded = asyncio.run(main())
    runs = [run for root in recorded.roots for run in root.find(task(main.__qualname__))]
    assert len(runs) == 2
    for run in runs:
        (function,) = run.find("main")
        assert len(function.find("leaf")) == 1


def test_a_run_is_in_both_of_two_windows_that_overlap():
    async def main():
        first = Recorded().__enter__()
        await pause()
        second = Recorded().__enter__()
        note("in both")
        await pause()
        note("likewise")
        second.__exit__()
        await pause()
        first.__exit__()
        return first, second

    first, second = asyncio.run(main())
    name = main.__qualname__
    in_both = [task(name, "in both"), task(name, "likewise")]
    assert first.runs() == [task(name), *in_both, task(name)]
    assert second.runs() == in_both


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


def test_a_run_on_another_thread_nests_with_what_runs_it():
    begun, opened = threading.Event(), threading.Event()

    async def elsewhere():
        begun.set()
        opened.wait(HANGS_AFTER_S)
        await pause()

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    thread.start()
    assert begun.wait(HANGS_AFTER_S)
    with Recorded("ASYNCIO", "PYTHON") as recorded:
        opened.set()
        thread.join()
    events = recorded.table("events")
    starts, durations, parents = (events[c] for c in ("start_ns", "duration_ns", "parent"))
    ends = [start + duration for start, duration in zip(starts, durations, strict=True)]
    assert all(end <= ends[p] for end, p in zip(ends, parents, strict=True) if p >= 0)
    (first, second) = [
        run
        for root in recorded.roots
        for run in root.find(f"asyncio task: {elsewhere.__qualname__}")
    ]
    assert len(first.find("elsewhere")) == len(second.find("elsewhere")) == 1
    functions = [call for root in recorded.roots for call in root.find("_run")]
    around = [call for call in functions if any(part is first for part in call.find_all())]
    assert len(around) + len(first.find("_run")) == 1


def test_one_thread_only():
    thread = threading.Thread(target=asyncio.run, args=(gather_two(),))
    with Recorded(all_threads=False) as recorded:
        thread.start()
        thread.join()
        asyncio.run(step_twice("here"))
    assert recorded.runs() == [task("step_twice", "here 1"), task("step_twice", "here 2")]


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
        for _ in range(3000):
            await asyncio.create_task(once())

    with Recorded() as recorded:
        asyncio.run(main())
    runs = recorded.table("task_runs")
    per_task = [runs["task"].count(task) for task in (1, 1500, 3000)]
    assert per_task == [2, 2, 2]
    assert len(set(recorded.task_names())) == 3001


def test_tasks_that_nobody_finishes():
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


def test_nothing_where_no_task_runs_or_none_is_wanted():
    with Recorded() as recorded:
        note("no task")
    assert recorded.runs() == [] and recorded.table("tasks")["name"] == []
    with Recorded("ANNOTATIONS") as recorded:
        asyncio.run(gather_two())
    assert recorded.runs() == [] and recorded.table("tasks")["name"] == []


def test_pauses():
    async def main():
        recorded = Recorded().__enter__()
        await pause()
        _native.pause_window(recorded.window.id, True)
        note("left out")
        await pause()
        _native.pause_window(recorded.window.id, False)
        await pause()
        note("recorded")
        recorded.__exit__()
        return recorded

    runs = asyncio.run(main()).runs()
    name = main.__qualname__
    assert runs[0] == task(name) and runs[-1] == task(name, "recorded")
    assert "left out" not in str(runs)


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


def test_an_interrupt_in_a_task_reaches_the_program_and_ends_the_run():
    async def interrupted():
        note("interrupted")
        raise KeyboardInterrupt

    with Recorded() as recorded, pytest.raises(KeyboardInterrupt):
        asyncio.run(interrupted())
    assert task(interrupted.__qualname__, "interrupted") in recorded.runs()
    assert not any(run.unfinished for root in recorded.roots for run in root.find_all())


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
        recorded.window.close()
        recorded.window.read()
        return len(begun)

    async def main():
        return [await close_in_the_collection(number) for number in range(1, 12)]

    collections = asyncio.run(main())
    assert len(collections) == 11
    if sys.version_info < (3, 12):  # later ones do not collect in the middle of C code
        assert max(collections) > 1
