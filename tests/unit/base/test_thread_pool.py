"""The pool works before and during interpreter shutdown."""

import threading

from tests.support.interruptions import places

from opscope.base.thread_pool import ThreadPool
from support.processes import run_python


def test_at_shutdown_the_work_is_done_at_once():
    program = """
import atexit
from opscope.base.thread_pool import ThreadPool

def at_exit():
    with ThreadPool(2) as pool:
        print(list(pool.map(abs, [-1, -2])))
        print(type(pool.submit(lambda: 1 / 0).exception()).__name__)

atexit.register(at_exit)
"""
    done = run_python("-c", program)
    assert (done.stdout, done.stderr) == ("[1, 2]\nZeroDivisionError\n", "")


def test_a_signal_handler_works_in_the_middle_of_work():
    """At every instruction, with a pool of its own."""

    def work():
        with ThreadPool(2) as pool:
            assert list(pool.map(abs, [-1, -2])) == [1, 2]

    assert len(list(places(work, work, step=3))) > 20


def test_under_a_limit_no_thread_is_started():
    program = """
import resource, threading
from opscope.base.thread_pool import ThreadPool

resource.setrlimit(resource.RLIMIT_AS, (1 << 62, resource.getrlimit(resource.RLIMIT_AS)[1]))
with ThreadPool(2) as pool:
    print(pool.submit(threading.get_ident).result() == threading.get_ident())
"""
    done = run_python("-c", program)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_where_no_thread_can_be_started_the_work_is_done_at_once(monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("_thread.start_new_thread", refuse)
    with ThreadPool(2) as pool:
        assert list(pool.map(lambda _: threading.get_ident(), [1])) == [threading.get_ident()]
