"""A flight recorder where things go wrong: interrupts, full disks, forks, triggers that fail."""

import os
import resource
import shutil
import signal
import sys
import textwrap
import threading
import time

import pytest
import torch
from tests.support.flight_recordings import dumps_in, reason_of

import opscope
from opscope import flight_recorder, triggers
from opscope.cli.application import main
from opscope.errors import LifecycleError
from opscope.live.flight.trigger import Trigger
from support.processes import run_opscope, wait_until


def details_in(folder):
    return sorted(dump.metadata["dump"]["detail"] for dump in dumps_in(folder))


def interrupt_after(seconds):
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_a_thread_that_is_not_the_main_one_has_it_to_itself(tmp_path):
    failed = []

    def work():
        chosen = [triggers.OnSignal(), triggers.UncaughtException(), triggers.GcPause()]
        try:
            with flight_recorder(directory=tmp_path, triggers=chosen) as recorder:
                torch.ones(3).add(1)
                os.kill(os.getpid(), signal.SIGUSR2)
                recorder.dump("from a thread", wait=True)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failed
    assert {reason_of(dump) for dump in dumps_in(tmp_path)} == {"request", "signal"}


def test_an_interrupt_in_the_middle_of_a_dump(tmp_path):
    with flight_recorder(directory=tmp_path, triggers=[]) as recorder:
        torch.ones(3).add(1)
        for number in range(5):
            timer = interrupt_after(0.02 + number / 500)
            with pytest.raises(KeyboardInterrupt):
                recorder.dump(f"interrupted {number}", wait=True)
                time.sleep(60)
            timer.join()
        recorder.dump("after that", wait=True)
        assert not recorder.status().faults
    assert "after that" in details_in(tmp_path)
    assert not list(tmp_path.glob(".dump-*"))


def test_no_room_for_a_dump_and_room_for_the_next(tmp_path, capfd):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with flight_recorder(directory=tmp_path, triggers=[], budget=None) as recorder:
        for _ in range(30_000):
            torch.ones(3).add(1)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
            with pytest.raises(LifecycleError, match="could not be written"):
                recorder.dump("too large")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert not list(tmp_path.glob(".dump-*"))
        assert recorder.status().faults == {"a dump": 1}
        recorder.dump("with free space", wait=True)
    assert details_in(tmp_path) == ["with free space"]
    assert "recording continues" in capfd.readouterr().err


def test_without_a_process_to_make_its_trace_a_dump_is_kept(tmp_path, monkeypatch, capfd):
    with flight_recorder(directory=tmp_path, triggers=[], keeper=False) as recorder:
        torch.ones(3).add(1)
        with monkeypatch.context() as change:
            change.setattr(sys, "executable", "/dev/null")  # which nobody can run
            recorder.dump("nobody is there")
        recorder.dump("somebody is", wait=True)
        assert not recorder.status().faults
    said = capfd.readouterr().err
    assert "the trace of a dump was not written (Permission denied)" in said
    main(["doctor", "--recover", str(tmp_path)])
    assert details_in(tmp_path) == ["nobody is there", "somebody is"]


def test_without_a_thread_it_does_not_start_and_can_later(tmp_path, monkeypatch):
    recorder = flight_recorder(directory=tmp_path, triggers=[])
    threads = len(os.listdir("/proc/self/task"))

    def refuse(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as change:
        change.setattr("opscope.base.daemon_thread.OwnThread.start", refuse)
        with pytest.raises(LifecycleError, match=r"thread\. Check the limit of threads"):
            recorder.start()
    assert not recorder.running and not list(tmp_path.iterdir())
    until = time.monotonic() + 10  # one that was joined is listed for a moment longer
    while (left := len(os.listdir("/proc/self/task"))) != threads and time.monotonic() < until:
        time.sleep(0.01)
    assert left == threads
    with recorder:
        recorder.dump("with one", wait=True)
    assert details_in(tmp_path) == ["with one"]


def remove(folder):
    while folder.exists():  # a dump may begin in it meanwhile
        shutil.rmtree(folder, ignore_errors=True)


def test_a_folder_that_vanishes_is_made_again(tmp_path):
    folder = tmp_path / "dumps"
    with flight_recorder(directory=folder, triggers=[]) as recorder:
        torch.ones(3).add(1)
        remove(folder)
        assert recorder.dump("made again", wait=True).is_dir()
        remove(folder)
        folder.write_text("a file in its place")
        with pytest.raises(LifecycleError, match="could not be written"):
            recorder.dump()


def test_forks_in_the_middle_of_dumps(tmp_path):
    with flight_recorder(directory=tmp_path, triggers=[triggers.SlowStep()]) as recorder:
        for _ in range(5):
            dumping = threading.Thread(target=recorder.dump)
            dumping.start()
            child = os.fork()
            if child == 0:
                torch.ones(3).add(1)
                recorder.stop()
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            dumping.join()
    assert len(dumps_in(tmp_path)) == 5


class _Failing(Trigger):
    """Raises in the method that is named."""

    name = "failing"

    def __init__(self, method):
        self._method = method
        self.every_s = 0.01

    def _fail_in(self, method):
        if method == self._method:
            raise ZeroDivisionError(method)

    def settings(self):
        self._fail_in("settings")
        return {}

    def begin(self, watched):
        self._fail_in("begin")
        watched.steps.alarm(lambda _: self._fail_in("step")).at = 0

    def look(self):
        self._fail_in("look")


@pytest.mark.parametrize("method", ["settings", "begin"])
def test_a_trigger_that_cannot_begin_leaves_all_as_it_was(tmp_path, method):
    before = sys.excepthook
    chosen = [triggers.UncaughtException(), _Failing(method)]
    recorder = flight_recorder(directory=tmp_path, triggers=chosen)
    with pytest.raises(ZeroDivisionError, match=method):
        recorder.start()
    assert not recorder.running and sys.excepthook is before
    with flight_recorder(directory=tmp_path, triggers=[]) as another:
        assert another.dump(wait=True).is_dir()


def test_a_trigger_that_fails_later_stops_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    failing = [_Failing("step"), _Failing("look")]
    with flight_recorder(directory=tmp_path, triggers=failing) as recorder:
        for _ in range(3):
            recorder.step()
        wait_until(lambda: recorder.status().faults, 20)
        assert recorder.status().steps == 3
        trace = opscope.load(recorder.dump(wait=True))
    assert sum(recorder.status().faults.values()) > 0  # known after the end, too
    assert any("faults" in what for what in trace.ledger["flight recorder"])


def test_a_program_whose_dump_failed_is_not_said_to_have_wanted_none(tmp_path):
    program = """
        import resource, torch
        from opscope.live.flight.recorder import running_recorders
        torch.ones(3).add(1)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            running_recorders()[0].dump("without room")
        except Exception as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        """
    command = ("run", "--flight-recorder", "9s", "-o", tmp_path, "-c", textwrap.dedent(program))
    ran = run_opscope(*command)  # whose output is no file
    assert "could not be written" in ran.stdout and "a dump failed" in ran.stderr
    assert "nothing unusual happened" not in ran.stderr
