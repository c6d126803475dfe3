"""A ring that is always on, and the traces it writes when something happens, in real programs."""

import contextlib
import fcntl
import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from tests.support.flight_recordings import dumps_in, run, step
from tests.support.recorded import count, names

import opscope
from opscope import _native, flight_recorder, triggers
from opscope.cli.application import main
from opscope.cli.views.completeness import describe_completeness
from opscope.errors import LifecycleError, UsageError
from opscope.recording.torch_compile import report_optimizer_step


def test_a_dump_has_what_happened_and_says_why_it_was_made(tmp_path, model, optimizer):
    more = {"record_shapes": True, "profile_memory": True}
    with flight_recorder("30s", directory=tmp_path, triggers=[], **more) as recorder:
        step(model, optimizer)
        place = recorder.dump("to see", wait=True)
        step(model, optimizer)
    trace = opscope.load(place)
    assert {"aten::addmm", "AddmmBackward0"} <= set(names(trace))
    dump = trace.metadata["dump"]
    assert (dump["reason"], dump["detail"]) == ("request", "to see")
    assert 0 < dump["held_s"] < dump["requested_s"] == 30
    assert "not on for longer" in dump["limited_by"]
    assert "test_a_dump_has_what_happened" in dump["python_stacks"]
    assert trace.metadata["process_id"] == os.getpid()
    overloads = trace.metadata["overloads"]  # how its operators can be called
    assert "aten::addmm" in overloads and set(overloads) <= set(names(trace))


def test_recording_goes_on_while_dumps_are_written(tmp_path, model, optimizer):
    with flight_recorder("30s", directory=tmp_path, triggers=[]) as recorder:
        for number in range(3):
            with opscope.record_function(f"round {number}"):
                step(model, optimizer)
            recorder.dump(str(number))
    rounds = [{n for n in names(trace) if n.startswith("round")} for trace in dumps_in(tmp_path)]
    assert rounds == [
        {"round 0"},
        {"round 0", "round 1"},
        {"round 0", "round 1", "round 2"},
    ]


def held_up(folder):
    """As if another dump of the folder were being made: what makes them waits for the end of it."""
    file = os.open(folder, os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def wait_for_blocked(folder, count):
    """Until so many processes wait for their turn to make a trace; these."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        lines = Path("/proc/locks").read_text().splitlines()
        blocked = {line.split()[5] for line in lines if "-> FLOCK" in line}
        writers = writers_of(folder)
        if len(writers) == count and all(str(one) in blocked for one in writers):
            break
        time.sleep(0.01)
    return writers


def writers_of(folder):
    """Processes that have a dump of the folder in their command line."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if f"{folder}/.dump-" in file.read_text(errors="replace"):
                found.append(int(file.parent.name))
    return found


def test_when_a_process_is_killed_the_others_make_theirs(tmp_path, model, optimizer, capfd):
    other = held_up(tmp_path)
    with flight_recorder("30s", directory=tmp_path, triggers=[]) as recorder:
        step(model, optimizer)
        for number in range(3):
            recorder.dump(str(number))
        os.kill(wait_for_blocked(tmp_path, 3)[0], signal.SIGKILL)
        os.close(other)
    assert len(dumps_in(tmp_path)) == 2
    (left,) = tmp_path.glob(".dump-*")
    assert "unfinished dumps: 1" in (said := capfd.readouterr().err)
    assert f"opscope doctor --recover {tmp_path}" in said
    main(["doctor", "--recover", str(tmp_path)])
    assert not left.exists() and len(dumps_in(tmp_path)) == 3
    with pytest.raises(SystemExit):  # there is nothing left
        main(["doctor", "--recover", str(tmp_path)])


def test_dumps_that_wait_for_their_turn_outlive_the_program(tmp_path):
    other = held_up(tmp_path)
    # Its keeper would wait for its turn, too, and with it who reads what the program says.
    program = """
        import os, signal, sys, opscope, torch
        with opscope.flight_recorder(directory=sys.argv[1], triggers=[], keeper=False) as recorder:
            torch.ones(3).add(1)
            for number in range(5):
                recorder.dump(str(number))
            os.kill(os.getpid(), signal.SIGKILL)
        """
    assert run(program, tmp_path).returncode == -signal.SIGKILL
    os.close(other)
    assert [trace.metadata["dump"]["detail"] for trace in dumps_in(tmp_path)] == list("01234")


def test_the_end_of_a_program_does_not_wait_for_traces_that_are_not_made(tmp_path):
    other = held_up(tmp_path)
    program = """
        import sys, opscope, torch
        with opscope.flight_recorder(directory=sys.argv[1], triggers=[]) as recorder:
            torch.ones(3).add(1)
            recorder.dump("one")
        """
    ended = run(program, tmp_path, timeout=50)
    assert "1 dumps are still being written" in ended.stderr
    assert not list(tmp_path.glob("*.opscope"))
    os.close(other)
    assert [trace.metadata["dump"]["detail"] for trace in dumps_in(tmp_path)] == ["one"]


def test_the_ring_forgets_what_is_older(tmp_path, model, optimizer):
    with flight_recorder("200ms", directory=tmp_path, triggers=[], budget=None) as recorder:
        with opscope.record_function("long ago"):
            step(model, optimizer)
        until = time.monotonic() + 1.2
        while time.monotonic() < until:
            step(model, optimizer)
        trace = opscope.load(recorder.dump(wait=True))
    assert "aten::addmm" in names(trace)
    assert "long ago" not in names(trace)
    assert trace.metadata["dump"]["limited_by"] == ""


def most_used(recorder, x, times):
    """Bytes, looked at so often, while operators are recorded as fast as can be."""
    largest = 0
    for _ in range(times):
        for _ in range(20_000):
            x.add(1)
        largest = max(largest, recorder.status().used_bytes)
    return largest


def test_memory_is_bounded_and_a_dump_says_that_it_holds_less(tmp_path):
    x = torch.ones(1)
    recorder = flight_recorder(
        "1h", max_memory="12MiB", directory=tmp_path, triggers=[], budget=None
    )
    with recorder:
        largest = most_used(recorder, x, 36)
        place = recorder.dump(wait=True)
        status = recorder.status()
    # All of it would be more than 60 MiB; on a busy machine what is old is let go of later.
    assert largest < 48 << 20
    assert status.held_s < status.requested_s
    trace = opscope.load(place)
    assert "max_memory, 12 MiB" in trace.metadata["dump"]["limited_by"]
    assert trace.ledger["flight recorder"]["shortened because of memory"] > 0


def test_a_recording_that_no_process_reads_takes_no_memory_from_the_ring(tmp_path):
    x = torch.ones(1)
    with opscope.profile(record_shapes=True) as unread:
        for _ in range(1_000):
            x.add(1)
    recorder = flight_recorder(
        "1h", max_memory="12MiB", directory=tmp_path, triggers=[], budget=None, record_shapes=True
    )
    with recorder:
        largest = most_used(recorder, x, 15)
    assert largest < 48 << 20  # all of it would be 62 MiB
    assert count(unread.trace, "aten::add") == 1_000
    assert list(unread.trace.table("tensors").lists("sizes")).count([1]) == 1_000


def test_a_span_from_before_the_ring_s_beginning_is_cut_as_in_any_window(
    tmp_path, model, optimizer
):
    recorder = flight_recorder(
        "200ms", directory=tmp_path, triggers=[], with_functions=True, budget=None
    )
    with recorder:

        def outlasts_the_ring():
            until = time.monotonic() + 1
            while time.monotonic() < until:
                step(model, optimizer)
            return recorder.dump(wait=True)

        trace = opscope.load(outlasts_the_ring())
    (outer,) = [e for e in range(len(trace.events)) if "outlasts_the_ring" in trace.event_name(e)]
    assert trace.events["start_ns"][outer] == trace.metadata["start_ns"]
    inside = [e for e in range(len(trace.events)) if trace.event_name(e) == "aten::addmm"]
    assert inside


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
    until = time.monotonic() + 10  # a thread that was joined is listed for a moment longer
    while (after := _state()) != before and time.monotonic() < until:
        time.sleep(0.01)
    # A pool of an earlier test may end a thread meanwhile.
    assert after.pop("native threads") <= before.pop("native threads")
    assert after == before


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
        # Ours stays once it is there: see PythonCalls::watch_optimizers.
        "steps": [
            hook
            for hook in sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks.values()
            if hook is not report_optimizer_step
        ],
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
        assert "aten::addmm" in names(opscope.load(recorder.dump(wait=True)))
        recorder.stop()
        assert not recorder.running
    with pytest.raises(LifecycleError, match="is not running"):
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
    assert "aten::mul" in names(child) and "aten::add" not in names(child)
    assert "aten::add" in names(parent) and "aten::mul" not in names(parent)


def test_a_profile_beside_it_has_its_own_options(tmp_path, model, optimizer):
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


def test_the_governor_records_less_and_the_dump_says_so(tmp_path):
    x = torch.ones(1)
    with flight_recorder(directory=tmp_path, triggers=[], budget=0.001) as recorder:
        until = time.monotonic() + 60
        while recorder.status().level in ("operators", "outermost") and time.monotonic() < until:
            for _ in range(1000):
                x.add(1)
        assert recorder.status().level in ("steps", "nothing")
        trace = opscope.load(recorder.dump(wait=True))
    governor = trace.ledger["governor"]
    assert governor["budget"] == 0.001
    assert any("steps from then on" in what for what in governor)
    said = describe_completeness(trace)
    assert "operators for " in said and "of the time only (the budget)" in said
    lines = [row for row, name in enumerate(names(trace)) if name.endswith("(budget)")]
    assert len({trace.events["thread"][row] for row in lines}) == 1


def test_a_standstill_that_ended_before_anybody_looked_is_seen():
    watch = _native.Watch(10**9, 1 << 20, 10**9, standstill_ns=20_000_000, needs_steps=True)
    watch.step_ended()
    time.sleep(0.03)  # the standstill
    watch.step_ended()
    watch.start()
    try:
        news, took_ns, _ = watch.wait(10 * 10**9)
        assert news == "standstill"
        assert took_ns >= 20_000_000
    finally:
        watch.stop()


def test_what_makes_no_sense_is_refused(tmp_path):
    for wrong in ({"last": "soon"}, {"max_memory": 0}, {"budget": 2}, {"with_everything": True}):
        with pytest.raises(UsageError):
            flight_recorder(**wrong)
    for wrong in (triggers.SlowStep(), [triggers.SlowStep], 5):
        with pytest.raises(UsageError, match="not a list of triggers"):
            flight_recorder(triggers=wrong)
    with pytest.raises(UsageError, match="SIGTERM is used by the system"):
        triggers.OnSignal("SIGTERM")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="Dumps cannot be written"):
        flight_recorder(directory=tmp_path / "file").start()
    recorder = flight_recorder(
        directory=tmp_path, triggers=[triggers.OnSignal(), triggers.OnSignal()]
    )
    with pytest.raises(UsageError, match="SIGUSR2 cannot be received"):
        recorder.start()
    assert not recorder.running
    assert signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL
