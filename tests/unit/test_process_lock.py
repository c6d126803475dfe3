"""Locks that a forked child finds free."""

import os
import threading

import pytest

from opscope.process_lock import process_lock

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def test_it_can_be_taken_again_by_who_holds_it():
    lock = process_lock()
    with lock, lock:
        assert lock.acquire(blocking=False)
        lock.release()


def test_a_child_finds_free_what_another_thread_held():
    lock = process_lock()
    taken, release = threading.Event(), threading.Event()

    def hold():
        with lock:
            taken.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    assert not lock.acquire(blocking=False)
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(blocking=False) else 1)
    status = os.waitpid(child, 0)[1]
    release.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
    assert lock.acquire(blocking=False)
