"""The account of time of real programs: it adds up, and finds what threads really waited for."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import opscope
from opscope.columns.causes import Cause
from opscope.recording.facts.thread_samples import ThreadSamples
from support.torch_processes import run_torch

torch = pytest.importorskip("torch")


def train(steps, more=lambda: None):
    network = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        network(torch.ones(8, 16)).sum().backward()
        optimizer.step()
        more()


def adds_up(account):
    for thread in range(len(account.threads)):
        if account.time_ns[account.thread == thread].sum() != account.wall_ns:
            return False
    took = account.steps.end_ns - account.steps.start_ns
    return account.table().sum(axis=1).tolist() == took.tolist()


def time_of(account, cause):
    return sum(entry.time_ns for entry in account.entries() if entry.cause is cause)


def held_by_another_thread():
    """Wait for a lock that another thread gives back once this one was seen to wait, twice."""
    lock, own = threading.Lock(), threading.get_native_id()
    lock.acquire()

    def release():
        while state_of(own) != "S":
            pass
        looks = ThreadSamples()
        looks.begin()
        looks.before_end()
        lock.release()

    thread = threading.Thread(target=release)
    thread.start()
    lock.acquire()
    thread.join()


MANY_THREADS = """
import resource, threading, torch, opscope
from opscope.recording.facts.thread_samples import ThreadSamples
resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
is_over = threading.Event()
threads = [threading.Thread(target=is_over.wait) for _ in range(100)]
for thread in threads:
    thread.start()
with opscope.profile() as profile:
    torch.ones(3)
    files = [open("/dev/null") for _ in range(100)]
    for _ in range(100):  # each looks at some of them
        reader = ThreadSamples()
        reader.begin()
        reader.before_end()
is_over.set()
assert len(set(profile.trace.table("thread_samples")["system_thread_id"].tolist())) > 100
"""


def test_a_program_of_many_threads_keeps_its_descriptors():
    done = run_torch("-c", MANY_THREADS)
    assert done.returncode == 0, done.stderr


def state_of(thread):
    return Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("more", [{}, {"with_own_functions": True}, {"with_stack": True}])
def test_every_step_of_a_program_adds_up(more):
    with opscope.profile(**more) as profile:
        train(6)
    account = profile.trace.account("all")
    assert len(account.steps) > 2
    assert adds_up(account)
    assert profile.trace.critical_path("all").length_ns == account.wall_ns
    assert profile.trace.what_if({}, "all").saved_ns == 0


def test_a_wait_for_a_lock_is_known_from_the_kernel_where_no_call_was_recorded():
    with opscope.profile() as profile:
        train(3, held_by_another_thread)
    account = profile.trace.account("all")
    assert adds_up(account)
    assert time_of(account, Cause.LOCK) > 0


def test_a_recording_of_another_thread_has_its_account():
    def body():
        with opscope.profile() as profile:
            train(3)
        found.append(profile.trace.account("all"))

    found: list[object] = []
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert adds_up(found[0])
    assert time_of(found[0], Cause.OPERATOR) > 0


def test_an_exception_in_the_middle_leaves_an_account():
    profile = opscope.profile()
    with pytest.raises(ValueError, match="in the middle"), profile:
        train(3)
        raise ValueError("in the middle")
    assert adds_up(profile.trace.account("all"))


def test_a_recording_without_samples_says_so():
    with opscope.profile() as profile:
        train(3)
    trace = profile.trace
    without = trace.with_tables({"thread_samples": trace.table("thread_samples").take([])})
    assert not any("Kernel counters" in note for note in trace.account("all").notes)
    account = without.account("all")
    assert "Kernel counters of threads were not recorded" in account.notes[0]
    assert adds_up(account)
