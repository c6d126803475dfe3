"""Anomalies at random moments of a program: each makes a dump that goes back to before it.

By hand: OPSCOPE_ANOMALIES=200, with what makes one of each here.
"""

import gc
import os
import queue
import random
import threading
import time

import pytest
import torch

import opscope
from opscope import flight_recorder, triggers
from support.processes import wait_until

COUNT = int(os.environ.get("OPSCOPE_ANOMALIES", "6"))
SEED = int(os.environ.get("OPSCOPE_SEED", "1"))
_STALL_S = 0.4


def slow_step():
    time.sleep(_STALL_S)


def lock_held_by_another():
    lock, is_held = threading.Lock(), threading.Event()

    def hold():
        with lock:
            is_held.set()
            time.sleep(_STALL_S)

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    with lock:
        thread.join()


def stalled_loader():
    batches = queue.Queue()
    timer = threading.Timer(_STALL_S, batches.put, ("batch",))
    timer.start()
    batches.get()


def long_collection():
    rings = [[] for _ in range(400_000)]
    for ring in rings:
        ring.append(ring)
    del rings, ring
    gc.collect()


def no_memory():
    thread = threading.Thread(target=lambda: torch.empty(1 << 60))
    thread.start()
    thread.join()


def hang():
    time.sleep(2.5)


ANOMALIES = {
    slow_step: {"slow step"},
    lock_held_by_another: {"slow step"},
    stalled_loader: {"slow step"},
    long_collection: {"gc pause"},
    no_memory: {"out of memory"},
    hang: {"hang"},
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_every_anomaly_makes_a_dump_that_holds_what_was_before(tmp_path, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda raised: None)
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    chosen = random.Random(SEED).sample(list(ANOMALIES) * -(-COUNT // len(ANOMALIES)), k=COUNT)
    recorder = flight_recorder(
        "10s",
        directory=tmp_path,
        at_most_every="1ms",
        max_disk="20GiB",
        triggers=[
            triggers.SlowStep(warm_up=10, at_least="300ms"),
            triggers.GcPause("50ms"),
            triggers.OutOfMemory(),
            triggers.Hang("2s"),
        ],
    )
    happened = []
    with recorder:
        began_ns = time.time_ns()
        for anomaly in chosen:
            for _ in range(30):
                model(torch.randn(4, 16)).sum().backward()
                optimizer.step()
            happened.append((time.time_ns(), anomaly))
            anomaly()
        optimizer.step()
    _wait_for_writers(tmp_path)
    dumps = [opscope.load(folder).metadata["dump"] for folder in sorted(tmp_path.glob("*.opscope"))]
    unseen = [
        (anomaly.__name__, SEED)
        for number, (at_ns, anomaly) in enumerate(happened)
        if not any(
            _is_of(dump, ANOMALIES[anomaly], at_ns, _next_ns(happened, number), began_ns)
            for dump in dumps
        )
    ]
    assert len(unseen) <= COUNT // 100, unseen


def _wait_for_writers(folder):
    """Traces are made one by one, with low priority; the program does not wait for them all."""
    wait_until(lambda: not list(folder.glob(".dump-*")), 60 + 20 * COUNT)


def _next_ns(happened, number):
    return happened[number + 1][0] if number + 1 < len(happened) else time.time_ns()


def _is_of(dump, reasons, from_ns, to_ns, began_ns):
    """Whether this is the dump of an anomaly, with five seconds before it if there were any."""
    if dump["reason"] not in reasons or not from_ns <= dump["time_ns"] <= to_ns:
        return False
    before_s = dump["held_s"] - (dump["time_ns"] - from_ns) / 1e9
    return before_s >= min(5.0, (from_ns - began_ns) / 1e9 - 0.5)
