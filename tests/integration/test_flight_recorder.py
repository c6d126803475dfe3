"""A ring that is always on, and the traces it writes when something happens, in real programs."""

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch

import opscope
from opscope import _native, flight_recorder, triggers
from opscope.errors import LifecycleError, UsageError


@pytest.fixture
def model():
    return torch.nn.Linear(8, 8)


@pytest.fixture
def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.01)


def step(model, optimizer):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()


def names_of(trace):
    return {trace.names[name] for name in trace.events["name"]}


def reason_of(trace):
    return trace.metadata["dump"]["reason"]


def dumps_in(directory):
    return [opscope.load(folder) for folder in sorted(directory.glob("*.opscope"))]


def run(program, directory, *arguments, **options):
    """A program of its own, which has ``directory`` as its first argument."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(directory), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


def test_a_dump_has_what_happened_and_says_why_it_was_made(tmp_path, model, optimizer):
    with flight_recorder("30s", directory=tmp_path, triggers=[]) as recorder:
        step(model, optimizer)
        place = recorder.dump("to see", wait=True)
        step(model, optimizer)
    trace = opscope.load(place)
    assert {"aten::addmm", "AddmmBackward0"} <= names_of(trace)
    dump = trace.metadata["dump"]
    assert (dump["reason"], dump["detail"]) == ("asked for", "to see")
    assert 0 < dump["held_s"] < dump["asked_s"] == 30
    assert "not on for longer" in dump["limited_by"]
    assert "test_a_dump_has_what_happened" in dump["python_stacks"]
    manifest = json.loads((place / "rank=00000" / "manifest.json").read_text())
    assert manifest["dump"]["detail"] == "to see"
    assert trace.metadata["process_id"] == os.getpid()


def test_recording_goes_on_while_dumps_are_written(tmp_path, model, optimizer):
    with flight_recorder("30s", directory=tmp_path, triggers=[]) as recorder:
        for number in range(3):
            with opscope.record_function(f"round {number}"):
                step(model, optimizer)
            recorder.dump(str(number))
    rounds = [{n for n in names_of(trace) if n.startswith("round")} for trace in dumps_in(tmp_path)]
    assert rounds == [
        {"round 0"},
        {"round 0", "round 1"},
        {"round 0", "round 1", "round 2"},
    ]


def test_the_ring_forgets_what_is_older(tmp_path, model, optimizer):
    with flight_recorder("200ms", directory=tmp_path, triggers=[]) as recorder:
        with opscope.record_function("long ago"):
            step(model, optimizer)
        until = time.monotonic() + 2
        while time.monotonic() < until:
            step(model, optimizer)
        trace = opscope.load(recorder.dump(wait=True))
    assert "aten::addmm" in names_of(trace)
    assert "long ago" not in names_of(trace)
    assert trace.metadata["dump"]["limited_by"] == ""


def test_memory_is_bounded_and_a_dump_says_that_it_holds_less(tmp_path):
    x = torch.ones(1)
    with flight_recorder("1h", max_memory="24MiB", directory=tmp_path, triggers=[]) as recorder:
        largest = 0
        for _ in range(60):
            for _ in range(20_000):
                x.add(1)
            largest = max(largest, recorder.status().used_bytes)
        place = recorder.dump(wait=True)
        status = recorder.status()
    assert largest < 64 << 20  # all of it would be more than 100 MiB
    assert status.held_s < status.asked_s
    trace = opscope.load(place)
    assert "max_memory, 24 MiB" in trace.metadata["dump"]["limited_by"]
    assert trace.ledger["flight recorder"]["shortened for want of memory"] > 0


def test_a_span_from_before_the_ring_s_beginning_is_cut_as_in_any_window(
    tmp_path, model, optimizer
):
    with flight_recorder("200ms", directory=tmp_path, triggers=[], with_functions=True) as recorder:

        def outlasts_the_ring():
            until = time.monotonic() + 1.5
            while time.monotonic() < until:
                step(model, optimizer)
            return recorder.dump(wait=True)

        trace = opscope.load(outlasts_the_ring())
    (outer,) = [e for e in range(len(trace.events)) if "outlasts_the_ring" in trace.event_name(e)]
    assert trace.events["start_ns"][outer] == trace.metadata["start_ns"]
    inside = [e for e in range(len(trace.events)) if trace.event_name(e) == "aten::addmm"]
    assert inside


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
    assert "the cause" in names_of(trace)


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
            until = time.monotonic() + 20
            while not recorder.status().dumps and time.monotonic() < until:
                time.sleep(0.01)
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


def test_a_hang_makes_a_dump_although_the_gil_is_held(tmp_path):
    done = run(
        """
        import ctypes, sys, torch, opscope
        from opscope import triggers
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        recorder = opscope.flight_recorder(
            "30s", directory=sys.argv[1], triggers=[triggers.Hang("500ms")]
        )
        def stands_still():
            with opscope.record_function("never ends"):
                ctypes.PyDLL(None).sleep(7)  # with the GIL
        with recorder:
            for _ in range(3):
                model(torch.ones(1, 4)).sum().backward()
                optimizer.step()
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


def test_a_collection_a_jump_of_memory_and_a_condition_make_dumps(tmp_path):
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
        block = torch.ones(100 << 20)
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


def test_a_trigger_that_fails_stops_nothing_and_is_counted(tmp_path):
    def fails():
        raise ZeroDivisionError

    with flight_recorder(directory=tmp_path, triggers=[triggers.When(fails, "10ms")]) as recorder:
        until = time.monotonic() + 20
        while not recorder.status().faults and time.monotonic() < until:
            time.sleep(0.01)
        trace = opscope.load(recorder.dump(wait=True))
    assert sum(recorder.status().faults.values()) == 0  # it has stopped
    assert any("faults" in what for what in trace.ledger["flight recorder"])


def test_what_is_refused_is_counted_and_said(tmp_path, capfd):
    with flight_recorder(directory=tmp_path, triggers=[], max_disk="1B") as recorder:
        (tmp_path / "old.opscope").mkdir()
        (tmp_path / "old.opscope" / "file").write_bytes(b"12")
        with pytest.raises(LifecycleError, match="the limit is 0 MiB"):
            recorder.dump()
        assert list(recorder.status().refused.values()) == [1]
    assert "no dump for asked for" in capfd.readouterr().err


def test_stopping_leaves_the_process_as_it_was(tmp_path, model, optimizer):
    with flight_recorder(directory=tmp_path):
        step(model, optimizer)  # what is made once in a process is made now
    before = _state()
    with flight_recorder(
        directory=tmp_path,
        triggers=[
            triggers.OnSignal(),
            triggers.UncaughtException(),
            triggers.GcPause(),
            triggers.OutOfMemory(),
            triggers.SlowStep(),
        ],
        with_modules=True,
    ) as recorder:
        step(model, optimizer)
        assert _state() != before
        recorder.dump()
    assert _state() == before


def _state():
    statistics = _native.statistics()
    return {
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "native threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
        "hooks": (sys.excepthook, threading.excepthook, tuple(gc.callbacks)),
        "signal": signal.getsignal(signal.SIGUSR2),
        "windows": statistics["windows"],
        "wanted": statistics["wanted"],
        "steps": len(
            sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks  # type: ignore
        ),
    }


def test_it_can_be_started_again_and_from_another_thread(tmp_path, model, optimizer):
    recorder = flight_recorder(directory=tmp_path, triggers=[])
    for _ in range(2):
        thread = threading.Thread(target=recorder.start)
        thread.start()
        thread.join()
        recorder.start()
        assert recorder.running
        step(model, optimizer)
        assert "aten::addmm" in names_of(opscope.load(recorder.dump(wait=True)))
        recorder.stop()
        assert not recorder.running
    with pytest.raises(LifecycleError, match="does not run"):
        recorder.dump()


def test_a_forked_child_has_none_and_may_have_its_own(tmp_path):
    done = run(
        """
        import os, signal, sys, torch, opscope
        from opscope import triggers
        recorder = opscope.flight_recorder(
            directory=sys.argv[1], triggers=[triggers.OnSignal(), triggers.UncaughtException()]
        )
        with recorder:
            torch.ones(2).add(1)
            if os.fork() == 0:
                assert not recorder.running
                assert signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL
                assert sys.excepthook is sys.__excepthook__
                with recorder:
                    torch.ones(2).mul(1)
                    print(recorder.dump("child", wait=True), flush=True)
                os._exit(0)
            os.wait()
            print(recorder.dump("parent", wait=True))
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    child, parent = (opscope.load(Path(line)) for line in done.stdout.split())
    assert child.metadata["dump"]["detail"] == "child"
    assert "aten::mul" in names_of(child) and "aten::add" not in names_of(child)
    assert "aten::add" in names_of(parent) and "aten::mul" not in names_of(parent)


def test_a_profile_beside_it_has_what_it_asked_for(tmp_path, model, optimizer):
    with flight_recorder(directory=tmp_path, triggers=[]) as recorder:
        step(model, optimizer)
        with opscope.profile(record_shapes=True, with_modules=True) as profile:
            step(model, optimizer)
        trace = opscope.load(recorder.dump(wait=True))
    asked = profile.trace
    assert len(asked.table("tensors"))
    assert len(asked.table("modules")) == 1
    adds = [trace_.event_name(e) for trace_ in (asked, trace) for e in range(len(trace_.events))]
    assert adds.count("aten::addmm") == 1 + 2
    assert not len(trace.table("modules"))


def test_torch_s_own_profiler_works_beside_it(tmp_path, model, optimizer):
    with flight_recorder(directory=tmp_path, triggers=[]) as recorder:
        step(model, optimizer)
        with torch.profiler.profile(profile_memory=True) as profile:
            step(model, optimizer)
        step(model, optimizer)
        trace = opscope.load(recorder.dump(wait=True))
    assert "aten::addmm" in {event.name for event in profile.events()}
    names = [trace.event_name(e) for e in range(len(trace.events))]
    assert names.count("aten::addmm") == 3


def test_a_thousand_threads_come_and_go(tmp_path):
    with flight_recorder("400ms", directory=tmp_path, triggers=[]) as recorder:
        for _ in range(100):
            threads = [threading.Thread(target=lambda: torch.ones(2).add(1)) for _ in range(10)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        trace = opscope.load(recorder.dump(wait=True))
        until = time.monotonic() + 60
        while _native.statistics()["threads"] > 50 and time.monotonic() < until:
            torch.ones(2).add(1)
            time.sleep(0.01)
        assert _native.statistics()["threads"] <= 50  # logs of threads that are gone are given back
    assert "aten::add" in names_of(trace)


def test_the_governor_records_less_and_the_dump_says_so(tmp_path):
    x = torch.ones(1)
    with flight_recorder(directory=tmp_path, triggers=[], budget=0.001) as recorder:
        until = time.monotonic() + 60
        while recorder.status().level == "operators" and time.monotonic() < until:
            for _ in range(1000):
                x.add(1)
        assert recorder.status().level in ("steps", "nothing")
        trace = opscope.load(recorder.dump(wait=True))
    governor = trace.ledger["governor"]
    assert governor["budget"] == 0.001
    assert any("steps from then on" in what for what in governor)


def test_what_makes_no_sense_is_refused(tmp_path):
    for wrong in ({"last": "soon"}, {"max_memory": 0}, {"budget": 2}, {"with_everything": True}):
        with pytest.raises(UsageError):
            flight_recorder(**wrong)
    with pytest.raises(UsageError, match="SIGTERM has a meaning of its own"):
        triggers.OnSignal("SIGTERM")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="Dumps cannot be written"):
        flight_recorder(directory=tmp_path / "file").start()
    recorder = flight_recorder(
        directory=tmp_path, triggers=[triggers.OnSignal(), triggers.OnSignal()]
    )
    with pytest.raises(UsageError, match="SIGUSR2 cannot be heard"):
        recorder.start()
    assert not recorder.running
    assert signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL
