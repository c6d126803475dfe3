"""What makes a flight recorder write what it has, in real programs."""

import gc
import mmap
import os
import signal
import time

import pytest
import torch
from tests.support.flight_recordings import dumps_in, reason_of, run, step
from tests.support.recorded import count, names

import opscope
from opscope import flight_recorder, triggers
from opscope.cli.views.completeness import describe_completeness
from opscope.columns.ledger import NOT_KNOWN_MS
from opscope.errors import LifecycleError
from support.processes import wait_until
from support.torch_processes import TorchProgram


def test_a_slow_step_makes_a_dump(tmp_path, model, optimizer):
    slow = triggers.SlowStep(warm_up=10, at_least="500ms")
    with flight_recorder("30s", directory=tmp_path, triggers=[slow]):
        for number in range(30):
            step(model, optimizer)
            if number == 25:
                with opscope.record_function("the cause"):
                    time.sleep(0.8)
    (trace,) = dumps_in(tmp_path)
    assert reason_of(trace) == "slow step"
    assert "step 27 took" in trace.metadata["dump"]["detail"]
    assert "the cause" in names(trace)


def test_announced_steps_count_instead_of_the_optimizer_s(tmp_path, model, optimizer):
    with flight_recorder("30s", directory=tmp_path, triggers=[]) as recorder:
        step(model, optimizer)
        assert recorder.status().steps == 1
        with opscope.profile(schedule=opscope.schedule(wait=0, warmup=1, active=1)) as profile:
            for _ in range(3):
                step(model, optimizer)
                profile.step()
        assert recorder.status().steps == 1 + 1 + 3  # one before the first profile.step() was heard
        recorder.step()
        assert recorder.status().steps == 6


def test_a_signal_makes_a_dump_and_reaches_the_program_s_handler(tmp_path):
    heard = []
    before = signal.signal(signal.SIGUSR2, lambda *_: heard.append(1))
    ours = signal.getsignal(signal.SIGUSR2)
    try:
        with flight_recorder(directory=tmp_path, triggers=[triggers.OnSignal()]) as recorder:
            os.kill(os.getpid(), signal.SIGUSR2)
            wait_until(lambda: recorder.status().dumps, 20)
        assert heard == [1]
        assert signal.getsignal(signal.SIGUSR2) is ours
        os.kill(os.getpid(), signal.SIGUSR2)
        assert heard == [1, 1]
    finally:
        signal.signal(signal.SIGUSR2, before)
    (trace,) = dumps_in(tmp_path)
    assert trace.metadata["dump"]["detail"] == "SIGUSR2"


def test_an_uncaught_exception_makes_a_dump_on_any_thread(tmp_path):
    done = run(
        """
        import sys, threading, torch, opscope
        recorder = opscope.flight_recorder("30s", directory=sys.argv[1])
        recorder.start()
        def work():
            torch.ones(3).add(1)
            raise KeyError("in a thread")
        thread = threading.Thread(target=work, name="worker")
        thread.start()
        thread.join()
        torch.ones(3).mul(2)
        raise ValueError("in the program")
        """,
        tmp_path,
    )
    assert done.returncode == 1
    assert "ValueError: in the program" in done.stderr
    details = [trace.metadata["dump"]["detail"] for trace in dumps_in(tmp_path)]
    assert details == ["KeyError: 'in a thread', in worker"]
    assert "no dump for uncaught exception (ValueError" in done.stderr  # the second in a minute


def test_no_memory_is_a_reason_of_its_own(tmp_path):
    done = run(
        """
        import sys, torch, opscope
        opscope.flight_recorder("30s", directory=sys.argv[1]).start()
        torch.empty(1 << 60)
        """,
        tmp_path,
    )
    assert done.returncode == 1
    (trace,) = dumps_in(tmp_path)
    assert reason_of(trace) == "out of memory"


def test_what_was_left_out_is_reported_although_the_gil_is_held(tmp_path):
    """Of a program so dear to record that only some of its steps are, from its first seconds on."""
    done = run(
        """
        import ctypes, sys, time, torch, opscope
        from opscope import triggers
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        recorder = opscope.flight_recorder(
            "30s", directory=sys.argv[1], triggers=[triggers.Hang("500ms")], budget=0.0005
        )
        steps = 0
        with recorder:
            until = time.monotonic() + 2.5
            while time.monotonic() < until:
                model(torch.ones(1, 4)).sum().backward()
                optimizer.step()
                steps += 1
            ctypes.PyDLL(None).sleep(7)  # with the GIL
            print(recorder._flight.watch.emergencies, steps)
        """,
        tmp_path,
    )
    emergencies, steps = map(int, done.stdout.split())
    assert emergencies == 1, done.stderr
    (trace,) = dumps_in(tmp_path)
    assert count(trace, "aten::addmm") < steps
    assert trace.ledger["flight recorder"][NOT_KNOWN_MS] > 0
    assert any("from then on" in what for what in trace.ledger["governor"])
    said = describe_completeness(trace)
    assert "what the budget omitted in its last" in said


def test_a_hang_that_begins_while_the_recorder_looks_makes_a_dump_although_the_gil_is_held(
    tmp_path,
):
    """Its own thread has the GIL then, leaves it to others once more, and gets it no more."""
    done = run(
        """
        import ctypes, sys, threading, time, torch, opscope
        from opscope import triggers
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        may_look, looks = threading.Event(), threading.Event()
        def condition():
            if may_look.is_set():
                may_look.clear()
                looks.set()
                time.sleep(0.2)
        recorder = opscope.flight_recorder(
            "30s",
            directory=sys.argv[1],
            triggers=[triggers.Hang("500ms"), triggers.When(condition, every="10ms")],
        )
        def stands_still():
            with opscope.record_function("never ends"):
                ctypes.PyDLL(None).sleep(7)  # with the GIL
        with recorder:
            for _ in range(3):
                model(torch.ones(1, 4)).sum().backward()
                optimizer.step()
            may_look.set()
            looks.wait()
            stands_still()
            print(recorder._flight.watch.emergencies)
        """,
        tmp_path,
    )
    assert done.stdout.strip() == "1", done.stderr
    (trace,) = dumps_in(tmp_path)
    assert reason_of(trace) == "hang"
    assert "in stands_still" in trace.metadata["dump"]["python_stacks"]
    (event,) = [e for e in range(len(trace.events)) if trace.event_name(e) == "never ends"]
    assert trace.events["unfinished"][event]


STOPPED = """
import sys, time, torch, opscope
from opscope import triggers
hang = [triggers.Hang("900ms")]
with opscope.flight_recorder("30s", directory=sys.argv[1], triggers=hang) as recorder:
    print("ready", flush=True)
    until = time.monotonic() + 5
    while time.monotonic() < until:
        time.sleep(0.005)
        recorder.step()
"""


@pytest.mark.skipif(
    not os.path.exists("/proc/self/schedstat"), reason="this kernel does not count waiting"
)
def test_a_program_that_was_stopped_did_not_hang(tmp_path):
    with TorchProgram("-c", STOPPED, tmp_path) as running:
        assert running.stdout.readline() == "ready\n"
        time.sleep(0.3)
        os.kill(running.pid, signal.SIGSTOP)
        time.sleep(2.5)
        os.kill(running.pid, signal.SIGCONT)
        running.communicate(timeout=120)
    assert running.returncode == 0 and not dumps_in(tmp_path)


def test_a_collection_a_jump_of_memory_and_a_condition_make_dumps(tmp_path):
    gc.collect()  # what earlier tests left would make memory fall before it jumps
    state = {"bad": ""}
    chosen = [
        triggers.GcPause("1ms"),
        triggers.MemoryJump("256MiB", within="60s"),
        triggers.When(lambda: state["bad"], every="20ms", name="loss is bad"),
    ]
    with flight_recorder("30s", directory=tmp_path, triggers=chosen) as recorder:
        rings = [[] for _ in range(300_000)]
        for ring in rings:
            ring.append(ring)
        del rings, ring
        gc.collect()
        # Not from malloc(), which may keep as much of earlier tests.
        block = mmap.mmap(-1, 400 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        torch.frombuffer(block, dtype=torch.uint8).fill_(1)
        state["bad"] = "it is NaN"
        until = time.monotonic() + 60
        names = ("gc-pause", "memory-jump", "loss-is-bad")
        while time.monotonic() < until:
            dumps = " ".join(dump.name for dump in recorder.status().dumps)
            if all(name in dumps for name in names):
                break
            time.sleep(0.02)
        del block
    reasons = {reason_of(trace): trace.metadata["dump"]["detail"] for trace in dumps_in(tmp_path)}
    assert reasons.keys() == {"gc pause", "memory jump", "loss is bad"}
    assert reasons["loss is bad"] == "it is NaN"


def test_what_is_refused_is_counted_and_reported(tmp_path, capfd):
    with flight_recorder(directory=tmp_path, triggers=[], max_disk="1B") as recorder:
        (tmp_path / "old.opscope").mkdir()
        (tmp_path / "old.opscope" / "file").write_bytes(b"12")
        with pytest.raises(LifecycleError, match="the limit is 0 MiB"):
            recorder.dump()
        assert list(recorder.status().refused.values()) == [1]
    assert "no dump for request" in capfd.readouterr().err
