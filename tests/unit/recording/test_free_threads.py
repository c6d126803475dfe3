"""Threads that run Python at the same time while windows open and close: every call is there, once.

With the GIL they take turns; on a build without it (3.13t) they do not.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from opscope import _native
from support.record_python import WITHOUT_GIL, Call, PythonWindow, leaf

pytest_plugins = ["support.without_torch"]
pytestmark = pytest.mark.usefixtures("nothing_left_over", "no_torch")

THREADS = 16
IN_A_ROW = 7
BURSTS = 40


def make_row() -> list[Callable[[], object]]:
    """Functions that are called one after the other, so that one which is missing shows."""
    source = "\n".join(
        f"def in_row_{number}():\n    len('')\n    leaf({number})\n" for number in range(IN_A_ROW)
    )
    made: dict[str, Any] = {"leaf": leaf}
    exec(compile(source, "row_of_functions.py", "exec"), made)
    return [made[f"in_row_{number}"] for number in range(IN_A_ROW)]


ROW = make_row()


def call_row(bursts: int) -> None:
    for _ in range(bursts):
        for function in ROW:
            function()
        time.sleep(0.0002)


def run_in_threads(work: Callable[[], object], meanwhile: Callable[[], object]) -> int:
    """Calls ``work`` in each of many threads, and ``meanwhile`` in this one until all have ended.

    How often, for the latter.
    """
    gate = threading.Barrier(THREADS + 1)

    def begin() -> None:
        gate.wait()
        work()

    threads = [threading.Thread(target=begin) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    gate.wait()
    times = 0
    while any(thread.is_alive() for thread in threads):
        meanwhile()
        times += 1
    for thread in threads:
        thread.join()
    return times


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """With the GIL, threads change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def row_of_thread(roots: list[Call]) -> dict[int, list[Call]]:
    """By thread the calls of the row, in order."""
    found: dict[int, list[Call]] = {}
    for root in roots:
        for call in root.find_all():
            if call.name.startswith("in_row_"):
                found.setdefault(call.thread, []).append(call)
    return found


def assert_none_is_missing(roots: list[Call]) -> None:
    """What a window has of each thread is a part of its row without gaps, whole but at the ends."""
    for calls in row_of_thread(roots).values():
        numbers = [int(call.name.removeprefix("in_row_")) for call in calls]
        expected = [(numbers[0] + i) % IN_A_ROW for i in range(len(numbers))]
        assert numbers == expected
        for call in calls[1:-1]:
            assert not call.unfinished
            assert call.shape() == (call.name, "<built-in function len>", "leaf")
        assert not any(call.unfinished for call in calls[:-1])


@pytest.mark.usefixtures("eager_switching")
def test_every_call_is_in_its_windows_once():
    windows: list[PythonWindow] = []

    def open_and_close() -> None:
        window = PythonWindow()
        windows.append(window)
        time.sleep(0.001)
        window.close()

    whole = PythonWindow()
    times = run_in_threads(lambda: call_row(BURSTS), open_and_close)
    roots = whole.end()
    counts = Counter(call.name for root in roots for call in root.find_all())
    for number in range(IN_A_ROW):
        assert counts[f"in_row_{number}"] == THREADS * BURSTS
    assert len(row_of_thread(roots)) == THREADS
    assert_none_is_missing(roots)
    assert whole.decoded["account"]["unmatched_ends"] == 0
    assert len(windows) == times
    for window in windows:
        assert_none_is_missing(window.read())


@pytest.mark.usefixtures("eager_switching")
@pytest.mark.parametrize("wants", [("PYTHON",), ("FUNCTIONS",), ("OWN_FUNCTIONS",)], ids="".join)
def test_hooks_come_and_go_while_all_threads_run(wants):
    """No window is open between: hooks are removed and tables emptied each time."""

    def record_a_while() -> None:
        window = PythonWindow(*wants, "NEW_THREADS")
        time.sleep(0.001)
        for calls in row_of_thread(window.end()).values():
            numbers = [int(call.name.removeprefix("in_row_")) for call in calls]
            assert numbers == [(numbers[0] + i) % IN_A_ROW for i in range(len(numbers))]
            assert not any(call.unfinished for call in calls[:-1])

    assert run_in_threads(lambda: call_row(BURSTS), record_a_while) > 0


def test_annotations_of_one_object_in_all_threads():
    shared = _native.Annotation("shared")

    def annotate() -> None:
        for _ in range(200):
            with _native.Annotation("own"), shared:
                pass

    whole = PythonWindow("ANNOTATIONS")
    run_in_threads(annotate, lambda: time.sleep(0.001))
    counts = Counter(call.name for root in whole.end() for call in root.find_all())
    assert counts["own"] == counts["shared"] == 200 * THREADS


def test_a_section_has_one_thread_at_a_time():
    section = _native.Section()
    inside: list[int] = []
    most = 0
    entered = 0

    def work() -> None:
        nonlocal most, entered
        inside.append(1)
        most = max(most, len(inside))
        entered += 1
        inside.pop()

    def enter() -> None:
        for _ in range(100):
            section.run(work)

    run_in_threads(enter, lambda: time.sleep(0.001))
    assert (most, entered) == (1, 100 * THREADS)


def test_what_is_held_ends_as_often_as_it_begins():
    begun: list[int] = []
    ended: list[int] = []
    held = _native.Held(lambda: begun.append(1), lambda: ended.append(1))

    def open_and_close() -> None:
        for _ in range(100):
            held.open()
            held.close()

    run_in_threads(open_and_close, lambda: time.sleep(0.001))
    assert not held.is_open
    assert len(ended) >= len(begun) > 0


def test_numbers_are_given_once():
    given: list[int] = []
    run_in_threads(
        lambda: given.extend([_native.new_number() for _ in range(1000)]),
        lambda: time.sleep(0.001),
    )
    assert len(set(given)) == 1000 * THREADS


@pytest.mark.skipif(not WITHOUT_GIL, reason="the GIL is on")
def test_without_the_gil_runs_of_tasks_are_reported_not_to_be_seen():
    window = PythonWindow("ASYNCIO")
    window.end()
    notes = window.decoded["account"]["notes"]
    assert ("asyncio tasks", "not recorded: this needs PYTHON_GIL=1", 1.0) in notes
