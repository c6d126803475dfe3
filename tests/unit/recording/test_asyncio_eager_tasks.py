"""Tasks that begin eagerly, within the run of the task that makes them."""

import asyncio
import contextvars
import sys
import threading

import pytest

from support.asyncio_runs import Recorded, is_run, note, pause, step_twice, task
from support.record_python import WITHOUT_GIL

pytest_plugins = ["support.without_torch"]
pytestmark = [
    pytest.mark.usefixtures("nothing_left_over", "no_torch"),
    pytest.mark.skipif(WITHOUT_GIL, reason="runs of tasks are seen with the GIL alone"),
    pytest.mark.skipif(
        sys.version_info < (3, 12), reason="tasks begin eagerly from Python 3.12 on"
    ),
]

HANGS_AFTER_S = 60


def run_eagerly(coroutine, make=None):
    """asyncio.run, with tasks that begin eagerly, made by `make`."""

    async def main():
        factory = asyncio.create_eager_task_factory(make) if make else asyncio.eager_task_factory
        asyncio.get_running_loop().set_task_factory(factory)
        return await coroutine

    return asyncio.run(main())


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


def test_those_written_in_python():
    async def at_once():
        note("at once")

    async def main():
        await asyncio.create_task(at_once())
        await asyncio.create_task(step_twice("a"))

    with Recorded() as recorded:
        run_eagerly(main(), asyncio.tasks._PyTask)
    at_once_name = f"{main.__qualname__.removesuffix('main')}at_once"
    runs = [str(run) for run in recorded.runs()]
    assert task(at_once_name, "at once") in recorded.runs()
    assert sum("'a 1'" in run and run.startswith("('asyncio task: step_twice") for run in runs) == 1
    assert task("step_twice", "a 2") in recorded.runs()


def test_contexts_that_the_program_enters_itself_are_no_runs():
    def inside():
        note("in a copy")

    async def eager():
        note("before")
        contextvars.copy_context().run(inside)
        note("between")
        contextvars.copy_context().run(contextvars.copy_context().run, inside)
        note("after")

    async def main():
        contextvars.copy_context().run(inside)
        await asyncio.create_task(eager())
        contextvars.copy_context().run(inside)

    with Recorded() as recorded:
        run_eagerly(main())
    name = f"{main.__qualname__.removesuffix('main')}eager"
    made = task(name, "before", "in a copy", "between", "in a copy", "after")
    (first, *others) = recorded.runs()
    assert first[1:] == ("in a copy", made, "in a copy")
    assert others == [made]


def test_one_that_fails_at_once_ends_there():
    async def fails():
        note("fails")
        raise ValueError

    async def main():
        with pytest.raises(ValueError):
            await asyncio.create_task(fails())
        note("goes on")

    with Recorded() as recorded:
        run_eagerly(main())
    name = f"{main.__qualname__.removesuffix('main')}fails"
    assert recorded.runs()[0][1:] == (task(name, "fails"), "goes on")
    assert recorded.runs().count(task(name, "fails")) == 1
    assert not any(run.unfinished for root in recorded.roots for run in root.find_all())


def test_a_window_that_opens_in_a_first_run_has_what_is_left_of_it():
    opened = []

    async def eager():
        note("before")
        opened.append(Recorded())
        note("1")
        await pause()
        note("2")

    async def main():
        made = asyncio.create_task(eager())
        note("main goes on")
        await made
        opened[0].__exit__()

    run_eagerly(main())
    name = f"{main.__qualname__.removesuffix('main')}eager"
    runs = opened[0].runs()
    assert runs[0][1:] == (task(name, "1"), "main goes on")
    assert runs[1:3] == [task(name, "1"), task(name, "2")]


def test_a_window_that_closes_in_a_first_run_leaves_it_open():
    async def eager(recorded):
        note("1")
        recorded.__exit__()
        note("too late")
        await pause()

    async def main(recorded):
        await asyncio.create_task(eager(recorded))

    recorded = Recorded()
    run_eagerly(main(recorded))
    name = f"{main.__qualname__.removesuffix('main')}eager"
    (first, *others) = recorded.runs()
    assert (first[1:], others) == ((task(name, "1"),), [task(name, "1")])
    with Recorded() as again:
        run_eagerly(step_twice("a"))
    assert [run[1:] for run in again.runs()] == [("a 1",), ("a 2",)]


def test_first_runs_on_threads_of_their_own():
    async def main(name):
        first = asyncio.create_task(step_twice(name))
        note(f"{name} goes on")
        await first

    names = [f"thread {number}" for number in range(4)]
    with Recorded() as recorded:
        threads = [threading.Thread(target=lambda n=n: run_eagerly(main(n))) for n in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for name in names:
        runs = [run for run in recorded.runs() if f"{name} 1" in str(run)]
        assert task("step_twice", f"{name} 1") in runs
        assert any(run[1:] == (task("step_twice", f"{name} 1"), f"{name} goes on") for run in runs)
        assert task("step_twice", f"{name} 2") in recorded.runs()
    assert all(is_run(root) for root in recorded.roots)
