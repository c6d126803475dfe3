"""The pool works before and during interpreter shutdown."""

import subprocess
import sys
import threading

import pytest

from opscope.thread_pool import ThreadPool


def test_work_is_done_on_other_threads():
    with ThreadPool(2) as pool:
        assert list(pool.map(lambda x: (x * 2, threading.get_ident()), [1, 2])) != []
        assert pool.submit(threading.get_ident).result() != threading.get_ident()


def test_errors_arrive():
    with ThreadPool(1) as pool, pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 / 0).result()


def test_at_shutdown_the_work_is_done_at_once():
    program = """
import atexit
from opscope.thread_pool import ThreadPool

def at_exit():
    with ThreadPool(2) as pool:
        print(list(pool.map(abs, [-1, -2])))
        print(type(pool.submit(lambda: 1 / 0).exception()).__name__)

atexit.register(at_exit)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[1, 2]\nZeroDivisionError\n", "")


def test_without_threads_the_work_is_done_at_once(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with ThreadPool(2) as pool:
        assert list(pool.map(abs, [-1, -2])) == [1, 2]
        assert pool.submit(threading.get_ident).result() == threading.get_ident()


def test_under_a_limit_no_thread_is_started():
    program = """
import resource, threading
from opscope.thread_pool import ThreadPool

resource.setrlimit(resource.RLIMIT_AS, (1 << 62, resource.getrlimit(resource.RLIMIT_AS)[1]))
with ThreadPool(2) as pool:
    print(pool.submit(threading.get_ident).result() == threading.get_ident())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")
