"""Children that are forked while a recording goes on: they end as plain ones do, have nothing of it
open, and keep nobody waiting; the parent's recording has all that its threads did."""

import os
import signal
import textwrap
from pathlib import Path

import pytest
import torch

import opscope
from support.recorded import names
from support.torch_processes import run_torch
from torture.children import in_child

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

TESTS = Path(__file__).parents[1]
BESIDE = TESTS / "programs" / "forks_beside.py"
EVERYTHING = {
    "record_shapes": True,
    "profile_memory": True,
    "with_stack": True,
    "with_modules": True,
}
FIRST_OF_OURS = 512  # as in opscope/base/private_files.py


def run(code, *arguments):
    program = "import os, sys, time, torch, opscope\n" + textwrap.dedent(code)
    return run_torch("-c", program, *arguments)


def test_children_that_leave_at_once_end_well_beside_threads_that_record():
    """Of every kind of recording: one of 40 children died, or was never done, beside a stream."""
    limits = ["--forks", "40", "--per-round", "20", "--seconds", "20", "--busy", "3"]
    done = run_torch(BESIDE, *limits, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def files_of_ours():
    """Open files of opscope's in this process but those in which the kernel counts."""
    numbers = [name for name in os.listdir("/proc/self/fd") if int(name) >= FIRST_OF_OURS]
    found = [os.readlink(f"/proc/self/fd/{name}") for name in numbers]
    return [path for path in found if not path.startswith("/proc/")]


def mapped_of_ours(folder):
    text = Path("/proc/self/maps").read_text()
    return [line for line in text.splitlines() if str(folder) in line or "/.ring-" in line]


def check_that_a_child_has_none(folder, before):
    """``before``: what other tests of this process left open, as files that they read."""
    assert files_of_ours() != before

    def child():
        assert set(files_of_ours()) <= set(before)
        assert mapped_of_ours(folder) == []
        in_child(lambda: torch.ones(2).add(1))

    in_child(child)
    assert files_of_ours() != before


def test_a_child_has_nothing_open_of_a_recording_that_streams(tmp_path):
    before = files_of_ours()
    with opscope.profile(stream_to=tmp_path / "t", **EVERYTHING):
        torch.ones(2).add(1)
        assert mapped_of_ours(tmp_path)
        check_that_a_child_has_none(tmp_path, before)


def test_a_child_has_nothing_open_of_a_flight_recorder(tmp_path):
    before = files_of_ours()
    with opscope.flight_recorder("1s", directory=tmp_path / "dumps"):
        torch.ones(2).add(1)
        check_that_a_child_has_none(tmp_path, before)


def test_the_trace_of_a_killed_program_does_not_wait_for_its_child(tmp_path):
    done = run(
        """
        with opscope.profile(stream_to=sys.argv[1]):
            torch.ones(3)
            if (child := os.fork()) == 0:
                os.setsid()
                for file in range(3):
                    os.close(file)
                time.sleep(600)
            print(child, flush=True)
            os.kill(os.getpid(), 9)
        """,
        tmp_path / "t",
    )
    # Until its standard error is closed, which the process that waits for its end has too.
    child = int(done.stdout)
    try:
        assert names(opscope.load(tmp_path / "t")).count("aten::ones") == 1
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_child_that_outlives_its_parent_records_itself(tmp_path):
    done = run(
        """
        with opscope.profile(stream_to=sys.argv[1] + "/parent", keeper=False):
            torch.ones(3)
            says, waits = os.pipe()
            if os.fork() == 0:
                os.close(waits)
                os.read(says, 1)  # until its parent is gone
                with opscope.profile(stream_to=sys.argv[1] + "/child", keeper=False):
                    for _ in range(5000):
                        torch.zeros(3)
                sys.exit()
            os._exit(0)
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert names(opscope.load(tmp_path / "child")).count("aten::zeros") == 5000
    assert names(opscope.load(tmp_path / "parent")).count("aten::ones") == 1


@pytest.mark.parametrize("options", [{}, EVERYTHING])
def test_what_runs_around_a_fork_goes_on_in_both(tmp_path, options):
    def child():
        with opscope.profile(**options) as own, opscope.record_function("in the child"):
            torch.zeros(2)
        found = names(own.trace)
        assert found.count("aten::zeros") == found.count("in the child") == 1
        assert "around" not in found
        assert own.trace.ledger["events"]["ends without a start"] == 0
        assert own.trace.metadata["process_id"] == os.getpid()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
            torch.zeros(1)
        assert any(event.name == "aten::zeros" for event in theirs.events())

    parents = opscope.profile(stream_to=tmp_path / "t", keeper=False, **options)
    with parents, opscope.record_function("around"):
        in_child(child)
        torch.ones(2)
    found = names(parents.trace)
    assert found.count("aten::ones") == found.count("around") == 1
    assert {"in the child", "aten::zeros"}.isdisjoint(found)


def test_a_signal_handler_that_forks(tmp_path):
    ended = []

    def on_signal(number, frame):
        ended.append(in_child(lambda: torch.zeros(2)))
        signal.setitimer(signal.ITIMER_REAL, 0.001)

    before = signal.signal(signal.SIGALRM, on_signal)
    try:
        with opscope.profile(stream_to=tmp_path / "t", keeper=False, **EVERYTHING) as profile:
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            ran = 0
            while len(ended) < 10:
                torch.ones(2)
                ran += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert names(profile.trace).count("aten::ones") == ran


IN_MEMORY_AND_IN_A_RING = """
import os, sys, opscope, torch
from opscope.errors import LifecycleError
names = lambda trace: [trace.names[int(name)] for name in trace.events["name"]]
with opscope.profile(record_shapes=True, profile_memory=True, with_stack=True) as in_memory:
    torch.ones(2)
limits = {"triggers": [], "budget": None}  # with a keeper the ring is in a file
with opscope.flight_recorder("1s", directory=sys.argv[1], **limits):
    with opscope.profile() as in_ring:
        torch.zeros(2)
    with opscope.profile() as looked_at:
        torch.zeros(2)
    assert looked_at.trace
    child = os.fork()
    if child == 0:
        assert names(in_memory.trace).count("aten::ones") == 1
        assert "aten::zeros" in names(looked_at.trace)
        try:
            in_ring.trace
        except LifecycleError as error:
            assert "belongs to the parent process" in str(error)
            os._exit(17)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
"""


def test_a_recording_that_had_ended_is_the_child_s_unless_it_lies_in_a_file(tmp_path):
    # A process of its own: what follows a stream begins in the last block of the stream's file.
    done = run_torch("-c", IN_MEMORY_AND_IN_A_RING, tmp_path)
    assert done.returncode == 0, done.stderr
