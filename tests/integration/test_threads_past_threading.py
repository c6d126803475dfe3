"""Threads that Python's threading module knows nothing of: their calls are counted as not heard."""

from __future__ import annotations

import _thread
import ctypes
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: E402

import opscope  # noqa: E402
from support.recorded import names  # noqa: E402

UNREPORTED = "dropped: Python calls of threads not started by threading"


def called():
    torch.ones(3)


def in_threading(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def by_thread(work):
    done = threading.Event()

    def run():
        work()
        done.set()

    _thread.start_new_thread(run, ())
    done.wait()


def from_c(work):
    callback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: work())
    thread, libc = ctypes.c_ulong(), ctypes.CDLL(None)
    libc.pthread_create(ctypes.byref(thread), None, callback, None)
    libc.pthread_join(thread, None)


@pytest.mark.parametrize("begin", [in_threading, by_thread, from_c])
def test_calls_are_there_or_their_thread_is_counted(begin):
    with opscope.profile(with_stack=True) as prof:
        begin(called)
    calls = sum(name.endswith(": called") for name in names(prof.trace))
    is_heard = begin is in_threading or sys.version_info >= (3, 12)
    assert names(prof.trace).count("aten::ones") == 1
    assert calls == is_heard
    assert prof.trace.ledger["threads"][UNREPORTED] == (not is_heard)


def test_a_thread_is_counted_that_is_recorded_only_once_another_recording_begins():
    may_go_on, done = threading.Event(), threading.Event()

    def run():
        called()
        done.set()
        may_go_on.wait()
        done.set()

    with opscope.profile(with_stack=True) as prof:
        _thread.start_new_thread(run, ())
        done.wait()
        done.clear()
        with opscope.profile(with_stack=True) as other:
            may_go_on.set()
            done.wait()
    is_heard = sys.version_info >= (3, 12)
    assert sum(name.endswith(": called") for name in names(prof.trace)) == is_heard
    assert prof.trace.ledger["threads"][UNREPORTED] == (not is_heard)
    assert other.trace.ledger["threads"][UNREPORTED] == 0


def test_a_thread_is_counted_that_is_not_recorded_because_of_what_another_recording_wants():
    with opscope.profile(with_own_functions=True) as prof, opscope.profile(with_stack=True):
        by_thread(called)
    is_heard = sys.version_info >= (3, 12)
    assert sum(name.endswith(": called") for name in names(prof.trace)) == is_heard
    assert prof.trace.ledger["threads"][UNREPORTED] == (not is_heard)


def test_a_thread_without_python_is_not_counted():
    """A backward pass on a worker of torch's, and workers of TorchScript, run no Python."""
    with opscope.profile(with_stack=True) as prof:
        leaf = torch.ones(3, requires_grad=True)
        (leaf * 2).sum().backward()
    assert prof.trace.ledger["threads"][UNREPORTED] == 0


def test_a_step_in_another_thread_survives_the_end_of_a_recording():
    """torch goes through its hooks in the middle of a step: none may go from there meanwhile."""
    parameter = torch.ones(3, requires_grad=True)
    parameter.grad = torch.ones(3)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    inside, go_on, failed = threading.Event(), threading.Event(), []

    def hook(*_):
        inside.set()
        go_on.wait()

    def step():
        try:
            optimizer.step()
        except RuntimeError as error:
            failed.append(error)

    with opscope.profile(with_modules=True):
        handle = register_optimizer_step_post_hook(hook)
        thread = threading.Thread(target=step)
        thread.start()
        inside.wait()
    go_on.set()
    thread.join()
    handle.remove()
    assert failed == []
