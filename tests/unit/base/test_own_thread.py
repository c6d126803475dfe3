"""Threads of opscope's own end before Python does, and none that Python ends aborts the program."""

import threading

import pytest

from opscope.base.own_thread import OwnThread
from support.processes import run_python


def run(program):
    """How a program of its own ended: its exit code, and what it printed."""
    done = run_python("-c", program)
    return done.returncode, done.stdout + done.stderr


def thread():
    ending, ended = threading.Event(), threading.Event()

    def function():
        ending.wait()
        ended.set()

    return OwnThread(function, ending.set), ended


def test_it_ends_when_it_is_asked_to():
    own, ended = thread()
    assert not own.is_alive()
    own.start()
    assert own.is_alive()
    own.join(0.01)
    assert own.is_alive(), "nobody asked it yet"
    own.ask_to_end()
    own.join()
    assert ended.is_set() and not own.is_alive()
    own.ask_to_end()


IS_ASKED = """
import atexit, threading
ending, ended = threading.Event(), threading.Event()
from opscope.base.own_thread import OwnThread
def function():
    ending.wait()
    print("asked")
OwnThread(function, ending.set).start()
atexit.register(lambda: print("of the program"))
"""


def test_at_exit_it_is_asked_after_the_program_s_own_functions():
    assert run(IS_ASKED) == (0, "of the program\nasked\n")


DOES_NOT_END = """
import time
from opscope.base.own_thread import OwnThread
def function():
    while True:
        time.sleep(0.0001)
OwnThread(function, lambda: None).start()
"""


def test_one_that_does_not_end_holds_nobody_up_for_long():
    assert run(DOES_NOT_END) == (0, "")


INSIDE = """
import _thread, threading
from opscope import _native
inside = threading.Event()
def stay():
    inside.set()
    while True:
        pass
def fail():
    raise ValueError
class Entered:
    __enter__ = _native.method(fail, lambda self: stay())
_thread.start_new_thread(lambda: {}, ())
inside.wait()
"""


@pytest.mark.parametrize(
    "call",
    [
        "_native.Held(stay, bool).open()",
        "_native.Held(bool, stay).run(bool)",
        "_native.Held(bool, bool).run(stay)",
        "_native.Section().run(stay)",
        "_native.Section().run(fail, stay)",
        "_native.AroundCall(stay, bool, bool)()",
        "_native.AroundCall(bool, stay, bool)()",
        "_native.AroundCall(bool, bool, lambda *_: stay())()",
        "Entered().__enter__()",
    ],
)
def test_a_thread_that_python_ends_in_a_function_that_is_called_from_native_code(call):
    assert run(INSIDE.format(call)) == (0, "")


READS = """
import _thread, threading
from opscope.storage.chrome import read_json
inside = threading.Event()
def meaning_of(category):
    inside.set()
    while True:
        pass
read_json.meaning_of = meaning_of
with open("trace.json", "w") as file:
    file.write('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1}]}')
from pathlib import Path
_thread.start_new_thread(read_json.read_json, (Path("trace.json"),))
inside.wait()
"""


def test_a_thread_that_python_ends_while_it_reads_a_trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(READS) == (0, "")
