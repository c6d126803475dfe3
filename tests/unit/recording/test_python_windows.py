"""Windows over Python calls: threads, pauses, other hooks, forks; on any interpreter, no torch."""

import cProfile
import inspect
import threading

import pytest

from opscope import _native
from support.processes import run_python
from support.record_python import WITH_GIL, PythonWindow, leaf, record, shapes

pytest_plugins = ["support.without_torch"]
pytestmark = pytest.mark.usefixtures("nothing_left_over", "no_torch")


def test_a_window_opened_at_the_bottom_of_a_deep_stack():
    windows = []

    def down(left):
        if left == 0:
            windows.append(PythonWindow())
            return 0
        return down(left - 1)

    down(500)
    leaf()
    roots = windows[0].end()
    (found,) = [call for root in roots for call in root.find("leaf")]
    assert not found.unfinished
    started = [call for root in roots for call in root.find("down")]
    assert len(started) == 501
    assert not any(call.unfinished for call in started)
    assert not any(call.find("leaf") for call in started), "they had returned"


def test_a_window_closed_deeper_than_it_was_opened_leaves_nothing_open():
    def outer(window):
        leaf()
        window.close()

    for _ in range(3):
        window = PythonWindow()
        outer(window)
        (call,) = [found for root in window.read() for found in root.find("outer")]
        assert call.unfinished
        assert call.children[0].shape() == "leaf"
    window = PythonWindow()
    leaf()
    roots = window.end()
    assert sum(len(root.find("outer")) for root in roots) == 0
    (found,) = [call for root in roots for call in root.find("leaf")]
    here = inspect.currentframe().f_code.co_name
    (test,) = [call for root in roots for call in root.find(here)]
    assert any(found is child for child in test.children), "not inside what never ended"


def test_pausing_leaves_out_and_goes_on():
    state = {}

    def ends_in_the_pause():
        state["window"] = PythonWindow()
        leaf()
        _native.pause_window(state["window"].id, True)

    def outer():
        ends_in_the_pause()
        leaf(10)
        _native.pause_window(state["window"].id, False)
        leaf(20)

    outer()
    roots = state["window"].end()
    (call,) = [found for root in roots for found in root.find("outer")]
    assert [child.name for child in call.children] == ["ends_in_the_pause", "leaf"]
    assert len(call.find("leaf")) == 2


@pytest.mark.parametrize(
    "wants", [("PYTHON", "NEW_THREADS"), ("PYTHON",), ("FUNCTIONS", "NEW_THREADS")]
)
def test_threads_that_exist_and_threads_that_begin(wants):
    ready, go, end = threading.Barrier(2), threading.Barrier(2), threading.Barrier(2)

    def before():
        ready.wait()
        go.wait()
        leaf()
        end.wait()

    def during():
        leaf()

    thread = threading.Thread(target=before)
    thread.start()
    ready.wait()
    window = PythonWindow(*wants)
    later = threading.Thread(target=during)
    later.start()
    later.join()
    go.wait()
    end.wait()
    thread.join()
    roots = window.end()
    (existing,) = [call for root in roots for call in root.find("before")]
    assert len(existing.find("leaf")) == 1
    assert not existing.unfinished
    begun = [call for root in roots for call in root.find("during")]
    assert len(begun) == ("NEW_THREADS" in wants)
    assert all(call.thread != existing.thread for call in begun)
    assert all(len(call.find("leaf")) == 1 for call in begun)


def test_a_thread_in_the_middle_of_a_call_when_windows_come_and_go():
    inside, go = threading.Event(), threading.Event()

    def worker():
        waits()

    def waits():
        inside.set()
        go.wait()
        leaf()

    thread = threading.Thread(target=worker)
    thread.start()
    inside.wait()
    chunks = []
    for _ in range(30):
        window = PythonWindow()
        window.end()
        chunks.append(_native.statistics()["mapped_bytes"])
    assert chunks[-1] <= chunks[10], "what the thread had open does not pile up"
    window = PythonWindow()
    go.set()
    thread.join()
    (call,) = [found for root in window.end() for found in root.find("worker")]
    assert not call.unfinished
    (waited,) = call.find("waits")
    assert len(waited.find("leaf")) == 1


def test_a_profiler_of_the_program_that_comes_during_a_window():
    window = PythonWindow()
    profiler = cProfile.Profile()
    profiler.enable()
    leaf()
    profiler.disable()
    window.end()
    assert any(entry.code is leaf.__code__ for entry in profiler.getstats())
    assert shapes(record(lambda_user)) == ["leaf"]


def lambda_user():
    leaf()


def test_a_thread_profiler_of_the_program_is_not_replaced():
    def profiler(frame, event, arg):
        return None

    threading.setprofile(profiler)
    try:
        window = PythonWindow()
        window.end()
        assert threading.getprofile() is profiler
        threading.setprofile(None)
        window = PythonWindow()
        threading.setprofile(profiler)
        window.end()
        assert threading.getprofile() is profiler
    finally:
        threading.setprofile(None)


def test_a_process_that_ends_while_daemon_threads_look_at_recordings():
    program = """
import threading
import numpy  # as opscope has before it decodes: a thread that ends while importing it aborts
from opscope import _native
from opscope.columns.codes import Want

_native.set_up_python("", "", "", *[None] * 4)
has_looked = threading.Semaphore(0)


def look():
    while True:
        window = _native.open_window(int(Want.PYTHON), True)
        sum(map(abs, range(1000)))
        _native.close_window(window)
        _native.decode(window, [])
        _native.discard_window(window)
        has_looked.release()


for _ in range(4):
    threading.Thread(target=look, daemon=True).start()
for _ in range(20):
    has_looked.acquire()
print("done")
"""
    done = run_python("-c", program, env=WITH_GIL)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
