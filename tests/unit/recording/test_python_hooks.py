"""Hooks on threads that come and go, set and taken away by several threads at once; no torch."""

import os
import sys
import threading

import pytest

from opscope import _native
from support.processes import run_python
from support.record_python import WITH_GIL, PythonWindow

pytest_plugins = ["support.without_torch"]
pytestmark = pytest.mark.usefixtures("nothing_left_over", "no_torch")

NATIVE_THREADS = """
import ctypes, threading
from opscope import _native
from opscope.columns.codes import Want

_native.set_up_python("", "", "", *[None] * 4)
library = ctypes.CDLL(None)
stopping = threading.Event()


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def body(_):
    return None


def make_threads():
    threads = (ctypes.c_ulong * 8)()
    while not stopping.is_set():
        for i in range(8):
            library.pthread_create(ctypes.byref(threads, 8 * i), None, body, None)
        for thread in threads:
            library.pthread_join(ctypes.c_ulong(thread), None)


makers = [threading.Thread(target=make_threads) for _ in range(3)]
for maker in makers:
    maker.start()
try:
    for _ in range(5_000):
        window = _native.open_window(int(Want.PYTHON), True)
        _native.pause_window(window, True)
        _native.pause_window(window, False)
        _native.discard_window(window)
finally:
    stopping.set()
for maker in makers:
    maker.join()
print("done")
"""


def test_threads_made_in_c_while_windows_open():
    """Python lists such a thread before its state is filled in, without having the GIL."""
    done = run_python("-c", NATIVE_THREADS, env=WITH_GIL)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def counted() -> None:
    """What every thread calls."""


def calls_of_this_thread(decoded) -> int:
    threads = decoded["tables"]["threads"]["system_thread_id"]
    (thread,) = (threads == threading.get_native_id()).nonzero()
    offsets, text = decoded["name_offsets"], decoded["name_text"]
    events = decoded["tables"]["events"]
    mine = events["name"][events["thread"] == thread[0]] if thread.size else []
    names = [text[offsets[name] : offsets[name + 1]] for name in mine]
    return sum(name.endswith(b": counted") for name in names)


def test_windows_that_several_threads_open_and_close_at_once():
    """What sets up recording runs Python, in the middle of which another thread may go on."""
    seen = []

    def work():
        for _ in range(100):
            window = PythonWindow("PYTHON", "MODULES", "NEW_THREADS")
            for _ in range(5):
                counted()
            window.close()
            decoded = _native.decode(window.id, [])
            _native.discard_window(window.id)
            seen.append(calls_of_this_thread(decoded))

    def watch_optimizers(_):
        for _ in range(20):
            os.stat(".")  # lets other threads run

    _native.set_up_python("", "", "", *[None] * 3, watch_optimizers)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        _native.set_up_python("", "", "", *[None] * 4)
    assert seen == [5] * 400


@pytest.mark.parametrize("wants", ["PYTHON", "MODULES"])
def test_an_audit_hook_that_refuses_loses_nothing_silently(wants):
    program = f"""
import sys
from opscope import _native
from opscope.columns.codes import Want


class Module:
    def __call__(self):
        pass


def refuse(event, arguments):
    if refusing and event in ("sys.setprofile", "sys.monitoring.register_callback"):
        raise PermissionError(event)


refusing = True
sys.addaudithook(refuse)
_native.set_up_python("", "", "", Module.__call__, *[None] * 3)
for _ in range(2):
    window = _native.open_window(int(Want.{wants}), True)
    unheard = _native.statistics()["occupied_threads"]
    Module()()
    _native.close_window(window)
    decoded = _native.decode(window, [])
    _native.discard_window(window)
    print(unheard, len(decoded["tables"]["modules"]["name"]))
    refusing = False
"""
    done = run_python("-c", program, env=WITH_GIL)
    refused = "1 1\n" if wants == "PYTHON" else "0 1\n"
    assert (done.stdout, done.stderr) == (refused + "0 1\n", "")
