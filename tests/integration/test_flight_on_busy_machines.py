"""Slow steps that are the machine's doing, and those that are the program's own."""

import os
import signal
import time

import pytest
from tests.support.flight_recordings import dumps_in

from support.torch_processes import TorchProgram, run_torch

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/schedstat"), reason="this kernel does not count waiting"
)

STEPS = """
import os, subprocess, sys, threading, time
import torch, opscope
from opscope import triggers

torch.set_num_threads(1)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

def compute(milliseconds):
    until = time.thread_time() + milliseconds / 1000
    while time.thread_time() < until:
        pass

def steps(count, milliseconds=20):
    for _ in range(count):
        compute(milliseconds)
        recorder.step()

def others_that_wait(count):  # there by now, so that no step waits for one to begin
    busy = "print(flush=True); input()\\nwhile True: pass"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    others = [subprocess.Popen([sys.executable, "-c", busy], **pipes) for _ in range(count)]
    for other in others:
        other.stdout.readline()
    return others

def let_run(others):
    for other in others:
        other.stdin.write(b"\\n")
        other.stdin.flush()

def recorder_with(*chosen):
    return opscope.flight_recorder(
        "30s", directory=sys.argv[1], triggers=list(chosen), at_most_every="1ms"
    )
"""


OTHERS = """
others = others_that_wait(3)
with recorder_with(triggers.SlowStep()) as recorder:
    steps(30)
    try:
        let_run(others)
        seen = []
        for _ in range(20):
            steps(1)
            seen.append(recorder._flight.steps.counter.waited_ns)
    finally:
        for other in others:
            other.kill()
    print(max(seen) > 30_000_000)
"""


def test_processes_of_others_make_no_step_slow(tmp_path):
    done = run_torch("-c", STEPS + OTHERS, tmp_path)
    assert done.stdout == "True\n", done.stderr
    assert not dumps_in(tmp_path)


STOPPED = """
with recorder_with(triggers.Hang("900ms")) as recorder:
    print("ready", flush=True)
    until = time.monotonic() + 5
    while time.monotonic() < until:
        time.sleep(0.005)
        recorder.step()
"""


def test_a_program_that_was_stopped_did_not_hang(tmp_path):
    with TorchProgram("-c", STEPS + STOPPED, tmp_path) as running:
        assert running.stdout.readline() == "ready\n"
        time.sleep(0.3)
        os.kill(running.pid, signal.SIGSTOP)
        time.sleep(2.5)
        os.kill(running.pid, signal.SIGCONT)
        running.communicate(timeout=120)
    assert running.returncode == 0 and not dumps_in(tmp_path)
