"""Pauses of the garbage collector, where windows open, close and pause in the middle of one."""

import contextlib
import gc
import os

import pytest

from opscope import _native
from support.asyncio_runs import note
from support.record_python import PythonWindow

pytest_plugins = ["support.without_torch"]
pytestmark = pytest.mark.usefixtures("nothing_left_over", "no_torch")
PAUSE = "gc: generation 2"


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
    roots = window.end()
    assert [root.shape() for root in roots] == [PAUSE, "after", PAUSE]
    assert not any(root.unfinished for root in roots)


def test_one_in_which_the_window_paused_and_went_on_ends_where_it_does():
    window = PythonWindow("GC", "ANNOTATIONS")

    def pause_and_go_on():
        _native.pause_window(window.id, True)
        _native.pause_window(window.id, False)
        note("inside")

    with in_the_next_collection(pause_and_go_on):
        gc.collect()
    note("after")
    roots = window.end()
    assert [root.shape() for root in roots] == [(PAUSE, "inside"), "after"]
    assert not any(root.unfinished for root in roots)


def test_calls_that_ended_after_one_whose_window_closed_in_it_do_not_run_for_ever():
    """Hooks come back while the thread that collected runs something else."""
    window = PythonWindow("GC", "PYTHON")

    def collect():
        with in_the_next_collection(window.close):
            gc.collect()

    collect()
    later = PythonWindow("GC", "PYTHON")
    note("after")
    later.close()
    (call,) = [found for root in window.read() for found in root.find("collect")]
    assert call.find(PAUSE)
    assert not [found for root in later.read() for found in root.find("collect")]


def test_the_hook_goes_with_the_collection_that_it_was_needed_in():
    window = PythonWindow("GC")
    with in_the_next_collection(window.close):
        gc.collect()
    assert [root.shape() for root in window.read()] == [PAUSE]
    assert _native.gc_callback not in gc.callbacks


def test_a_child_that_is_forked_in_the_middle_of_one():
    window, statuses = PythonWindow("GC"), []

    def fork():
        child = os.fork()
        if child == 0:
            later = PythonWindow("GC", "ANNOTATIONS")
            note("in the child")
            is_recorded = [root.shape() for root in later.end()] == ["in the child"]
            os._exit(0 if is_recorded else 1)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    with in_the_next_collection(fork):
        gc.collect()
    assert [root.shape() for root in window.end()] == [PAUSE]
    assert statuses == [0]
