"""Signal handlers: they may record, raise, or end the recording in the middle of a span."""

import signal

import torch

import opscope
from support.recorded import names
from support.torch_processes import run_torch


def test_a_handler_that_stops_the_recording():
    prof = opscope.profile(with_stack=True, record_shapes=True)
    before = signal.signal(signal.SIGUSR1, lambda number, frame: prof.stop())
    try:
        prof.start()
        with opscope.record_function("cut"):
            torch.ones(1)
            signal.raise_signal(signal.SIGUSR1)
            torch.zeros(1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    found = names(prof.trace)
    assert prof.trace.events["unfinished"][found.index("cut")]
    assert "aten::ones" in found and "aten::zeros" not in found


def test_many_signals_while_everything_is_recorded():
    # In a process of its own: an interval timer is no business of the other tests.
    done = run_torch(
        "-c",
        """
import signal, torch, opscope
count = 0
def handler(number, frame):
    global count
    count += 1
    torch.zeros(1)
    with opscope.record_function("tick"):
        torch.ones(1)
    if count < 200:
        signal.setitimer(signal.ITIMER_REAL, 0.0005)  # again, but never inside itself
signal.signal(signal.SIGALRM, handler)
prof = opscope.profile(record_shapes=True, profile_memory=True, with_stack=True)
with prof:
    signal.setitimer(signal.ITIMER_REAL, 0.0005)
    while count < 200:
        torch.full((3,), 1).sum()
trace = prof.trace
found = [trace.event_name(row) for row in range(len(trace.events))]
print(found.count("tick"), trace.ledger["events"]["ends without a start"])
""",
    )
    assert done.stdout.split() == ["200", "0.0"], done.stderr
