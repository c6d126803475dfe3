"""What the kernel counts of threads, as it is sampled around a window."""

from __future__ import annotations

import functools
import os
import select
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from opscope import _native
from opscope.columns.codes import WaitsFor
from opscope.recording.decoded import Decoded
from opscope.recording.facts.thread_samples import ThreadSamples
from support.torch_processes import run_torch


def decoded():
    return Decoded({}, None, {"notes": []})


def table_of(listener):
    return listener.added_to(decoded()).tables["thread_samples"]


def of_thread(table, thread):
    rows = np.flatnonzero(table["system_thread_id"] == thread)
    return {column.name: table[column.name][rows] for column in table.schema.columns}


@contextmanager
def waiting_thread(wait, go_on):
    """A thread that has begun to wait for something, by its number in the system."""
    begun, number = threading.Event(), []

    def body():
        number.append(threading.get_native_id())
        begun.set()
        wait()

    thread = threading.Thread(target=body)
    thread.start()
    begun.wait()
    while state_of(number[0]) != "S":
        pass
    try:
        yield number[0]
    finally:
        go_on()
        thread.join()


def state_of(thread):
    return Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()[0]


def sampled(body=lambda: None):
    listener = ThreadSamples()
    listener.begin()
    body()
    listener.before_end()
    return table_of(listener)


def test_a_thread_that_computes_and_one_that_waits_for_a_lock():
    lock = threading.Lock()
    lock.acquire()
    with waiting_thread(lock.acquire, lock.release) as waits:
        began = time.thread_time_ns()
        table = sampled(lambda: (sum(range(300_000)), time.sleep(0.1)))  # for many looks
        computed = time.thread_time_ns() - began
    own = of_thread(table, threading.get_native_id())
    other = of_thread(table, waits)
    assert 0 < own["computed_ns"][-1] - own["computed_ns"][0] <= computed
    assert (np.diff(own["time_ns"]) >= 0).all()
    assert other["waits_for"].tolist() == [WaitsFor.LOCK] * len(other["waits_for"])
    assert other["computed_ns"][-1] == other["computed_ns"][0]
    assert len(other["time_ns"]) == 2, "one that sleeps has a row at both ends alone"


def pipes():
    """Waits for what comes through a pipe, and what ends them, with what they are waits for."""
    reader, writer = os.pipe()
    read = functools.partial(os.read, reader, 1)
    select_it = functools.partial(select.select, [reader], [], [], 60)
    end = functools.partial(os.write, writer, b"x")
    return [(read, end, WaitsFor.TRANSFER), (select_it, end, WaitsFor.READINESS)]


def test_what_a_thread_waits_for():
    timed = [
        (functools.partial(time.sleep, 2), bool, WaitsFor.TIMER),
        (functools.partial(select.select, [], [], [], 2), bool, WaitsFor.TIMER),
        (functools.partial(select.poll().poll, 2_000), bool, WaitsFor.TIMER),
    ]
    for wait, go_on, waits_for in (*pipes(), *timed):
        with waiting_thread(wait, go_on) as waits:
            table = sampled()
        assert set(of_thread(table, waits)["waits_for"].tolist()) == {waits_for}


def test_readers_overlap_and_each_gets_its_own_time():
    first, second = ThreadSamples(), ThreadSamples()
    before = _native.thread_sample_readers()
    first.begin()
    second.begin()
    second.begin()  # again, as after an interruption
    assert _native.thread_sample_readers() == before + 2
    first.before_end()
    sum(range(100_000))
    second.before_end()
    second.before_end()
    assert _native.thread_sample_readers() == before
    thread = threading.get_native_id()
    early, late = of_thread(table_of(first), thread), of_thread(table_of(second), thread)
    assert early["time_ns"][0] <= late["time_ns"][0]
    assert early["time_ns"][-1] < late["time_ns"][-1]


def test_what_sampling_took_goes_to_the_ledger():
    listener = ThreadSamples()
    listener.begin()
    listener.before_end()
    notes = listener.added_to(decoded()).account["notes"]
    assert [what for _, what, _ in notes] == [
        "recorded",
        "samplings of all threads",
        "CPU time of the sampler; ns",
        "dropped: memory limit, or out of memory",
    ]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_samples_its_own_threads():
    outer = ThreadSamples()
    outer.begin()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            own = of_thread(sampled(lambda: sum(range(10_000))), threading.get_native_id())
            code = 0 if len(own["time_ns"]) >= 2 else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    outer.before_end()
    assert os.waitstatus_to_exitcode(status) == 0
    assert len(of_thread(table_of(outer), threading.get_native_id())["time_ns"]) >= 2


def test_it_ends_when_no_process_reads():
    sampled()
    while any(name_of(task) == "opscope-sampler" for task in os.listdir("/proc/self/task")):
        assert _native.thread_sample_readers() == 0


def name_of(task):
    try:
        return Path(f"/proc/self/task/{task}/comm").read_text().strip()
    except OSError:
        return ""


LIMITED = """
import os, resource
import torch, opscope
resource.setrlimit(resource.RLIMIT_AS, (1 << 42, resource.getrlimit(resource.RLIMIT_AS)[1]))
before = set(os.listdir("/proc/self/task"))
with opscope.profile() as prof:
    more = set(os.listdir("/proc/self/task")) - before
ledger = prof.trace.ledger["thread samples"]
print(len(more), ledger["dropped: memory limit, or out of memory"], ledger["recorded"] > 0)
"""


def test_with_limited_memory_there_is_no_thread_and_the_ledger_says_so():
    pytest.importorskip("torch")
    done = run_torch("-c", LIMITED)
    assert done.stdout.split() == ["0", "1.0", "True"], done.stderr


_COMPUTES = """
import sys, time
until = time.process_time() + 0.3  # the sampler finds it meanwhile, on a busy machine too
while time.process_time() < until:
    pass
print("done", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("in_thread", [False, True])
def test_processes_that_this_one_may_wait_for(in_thread):
    """A child has a negative number; the children of its parent are read only of a rank."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    begin = functools.partial(subprocess.Popen, [sys.executable, "-S", "-c", _COMPUTES], **pipes)
    with ThreadPoolExecutor(1) as other:
        child = other.submit(begin).result() if in_thread else begin()
        table = sampled(lambda: child.stdout.readline())
        child.communicate()
    rows = of_thread(table, -child.pid)
    assert rows["computed_ns"][-1] > rows["computed_ns"][0]
    assert (np.diff(rows["delayed_ns"]) >= 0).all()
    assert set(rows["waits_for"].tolist()) == {WaitsFor.OTHER}


RANK = """
from opscope.recording.decoded import Decoded
from opscope.recording.facts.thread_samples import ThreadSamples
listener = ThreadSamples()
listener.begin()
listener.before_end()
decoded = listener.added_to(Decoded({}, None, {"notes": []}))
print(*decoded.tables["thread_samples"]["system_thread_id"].tolist())
"""


@pytest.mark.parametrize("size", ["1", "2"])
def test_ranks_beside_this_one(size):
    beside = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    with beside:
        environment = {**os.environ, "RANK": "0", "WORLD_SIZE": size}
        found = subprocess.check_output([sys.executable, "-c", RANK], env=environment, text=True)
        beside.communicate(b"\n")
    assert (str(-beside.pid) in found.split()) == (size == "2")
