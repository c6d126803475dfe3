"""Tasks that begin eagerly, within the run of the task that makes them."""

import asyncio
import contextvars
import random
import sys

import pytest

from support.asyncio_runs import Recorded, note, pause, step_twice, task
from support.record_python import WITHOUT_GIL

pytest_plugins = ["support.without_torch"]
pytestmark = [
    pytest.mark.usefixtures("nothing_left_over", "no_torch"),
    pytest.mark.skipif(WITHOUT_GIL, reason="runs of tasks are seen with the GIL alone"),
    pytest.mark.skipif(
        sys.version_info < (3, 12), reason="tasks begin eagerly from Python 3.12 on"
    ),
]


def run_eagerly(coroutine):
    """asyncio.run, with tasks that begin eagerly."""

    async def main():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
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


def random_program(seed):
    """Tasks that make others, wait, enter contexts and fail; each notes which task it is."""
    choose = random.Random(seed)
    numbers = {}
    is_eager = choose.random() < 0.7

    def note_task():
        note(f"in {numbers.setdefault(asyncio.current_task(), len(numbers))}")

    async def fails():
        note_task()
        if choose.random() < 0.5:
            await pause()
        raise ValueError

    async def work(depth):
        note_task()
        for _ in range(choose.randint(0, 4)):
            match choose.randint(0, 6):
                case 0 | 1:
                    await pause()
                case 2:
                    contextvars.copy_context().run(note_task)
                case 3 if depth:
                    await work(depth - 1)
                case 4 if depth:
                    task = make(work(depth - 1))
                    if choose.random() < 0.5:
                        await pause()
                        task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                case 5 if depth:
                    await asyncio.gather(*(make(work(depth - 1)) for _ in range(2)))
                case 6:
                    await asyncio.gather(make(fails()), return_exceptions=True)
            note_task()

    def make(coroutine):
        return asyncio.create_task(coroutine)

    async def main():
        await asyncio.gather(*(make(work(4)) for _ in range(2)))

    run_eagerly(main()) if is_eager else asyncio.run(main())


def test_what_runs_is_in_the_run_of_its_own_task_whatever_tasks_do():
    checked = 0
    for seed in range(20):
        with Recorded() as recorded:
            random_program(seed)
        events, runs = recorded.table("events"), recorded.table("task_runs")
        task_of = dict(zip(runs["event"], runs["task"], strict=True))
        recorded_as = {}
        for row, name in enumerate(map(recorded.text, events["name"])):
            if not name.startswith("in "):
                continue
            run = row
            while run not in task_of:
                run = events["parent"][run]
            assert recorded_as.setdefault(name, task_of[run]) == task_of[run], seed
            checked += 1
        assert len(set(recorded_as.values())) == len(recorded_as), seed
        assert not any(events["unfinished"])
    assert checked > 100


def open_in_the_innermost(depth, *wants):
    """Tasks that begin eagerly in one another; in the innermost windows open, one for each."""
    opened = []

    async def level(number):
        if number == 0:
            for wanted in wants:
                opened.append(Recorded(*wanted))
            note("opened")
        else:
            made = asyncio.create_task(level(number - 1), name=f"level {number - 1}")
            note(f"{number} goes on")
            await made
        await pause()

    async def main():
        await asyncio.create_task(level(depth), name=f"level {depth}")
        for one in reversed(opened):
            one.__exit__()

    return opened, main


def test_a_window_that_opens_in_nested_first_runs_has_all_of_them():
    depth = 4
    opened, main = open_in_the_innermost(depth, ("ASYNCIO", "ANNOTATIONS"))
    run_eagerly(main())
    (recorded,) = opened
    level = f"{main.__qualname__.removesuffix('main')}level"
    expected = task(level, "opened")
    for number in range(1, depth + 1):
        expected = task(level, expected, f"{number} goes on")
    assert recorded.runs()[1] == expected
    names = [name for name in recorded.task_names() if name.startswith("level")]
    assert names == [f"level {number}" for number in reversed(range(depth + 1))]
    assert not recorded.window.decoded["account"]["notes"]
