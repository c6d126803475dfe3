"""Pauses of the garbage collector, where windows open, close and pause in the middle of one."""

import contextlib
import gc
import threading

import pytest

from opscope import _native
from support.record_python import PythonWindow

pytest_plugins = ["support.without_torch"]
pytestmark = pytest.mark.usefixtures("nothing_left_over", "no_torch")

HANGS_AFTER_S = 60
PAUSE = "gc: generation 2"


def note(name):
    """Something that runs."""
    with _native.Annotation(name):
        pass


@contextlib.contextmanager
def in_the_next_collection(do):
    """Call ``do`` once, after the recorder has heard of a collection's beginning."""
    left = [do]

    def callback(phase, info):
        if phase == "start" and left:
            left.pop()()

    gc.callbacks.append(callback)
    try:
        yield
    finally:
        gc.callbacks.remove(callback)


def test_one_in_which_the_window_paused_is_over_when_it_goes_on():
    window = PythonWindow("GC", "ANNOTATIONS")
    with in_the_next_collection(lambda: _native.pause_window(window.id, True)):
        gc.collect()
    _native.pause_window(window.id, False)
    note("after")
    gc.collect()
    window.close()
    roots = window.read()
    assert [root.shape() for root in roots] == [PAUSE, "after", PAUSE]
    assert not any(root.unfinished for root in roots)


def test_one_in_which_another_thread_pauses_the_window_ends_before_the_next():
    paused, resumed = threading.Event(), threading.Event()
    window = PythonWindow("GC", "ANNOTATIONS")

    def pause():
        _native.pause_window(window.id, True)

    def pause_elsewhere():
        thread = threading.Thread(target=pause)
        thread.start()
        thread.join()

    def collect():
        with in_the_next_collection(pause_elsewhere):
            gc.collect()
        paused.set()
        resumed.wait(HANGS_AFTER_S)
        gc.collect()
        note("after")

    thread = threading.Thread(target=collect)
    thread.start()
    assert paused.wait(HANGS_AFTER_S)
    _native.pause_window(window.id, False)
    resumed.set()
    thread.join()
    window.close()
    roots = window.read()
    assert [root.shape() for root in roots] == [PAUSE, PAUSE, "after"]
    assert not any(root.unfinished for root in roots)


def test_one_in_which_the_window_paused_and_went_on_ends_there():
    window = PythonWindow("GC", "ANNOTATIONS")

    def pause_and_go_on():
        _native.pause_window(window.id, True)
        _native.pause_window(window.id, False)

    with in_the_next_collection(pause_and_go_on):
        gc.collect()
    note("after")
    window.close()
    roots = window.read()
    assert [root.shape() for root in roots] == [PAUSE, "after"]
    assert not any(root.unfinished for root in roots)
