"""What a flight recorder held when its process died becomes a dump."""

import os
import signal
import struct
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import opscope
from opscope.errors import LifecycleError, TraceFormatError
from opscope.launch.keeper_process import in_memory_name
from opscope.live.recovery import dump_ring
from support.left_behind import file_of_ring, rings_in
from support.processes import opscope_here, wait_until
from support.torch_processes import run_torch

PROGRAM = Path(__file__).parents[1] / "programs" / "dies_in_ring.py"
UNITS = 97


def run(code, folder, *arguments):
    """A program that has the folder of its dumps as its first argument."""
    program = "import os, signal, sys, time, torch, opscope\n" + textwrap.dedent(code)
    return run_torch("-c", program, folder, *arguments)


def dump_of(folder, kind="death"):
    """Of the one dump of this kind: its keeper makes it when the program is gone."""
    until = time.monotonic() + 60
    while not (found := list(folder.glob(f"*-{kind}.opscope"))) and time.monotonic() < until:
        time.sleep(0.02)
    (one,) = found
    return opscope.load(one)


def files_of_rings(folder):
    """In memory, of this folder; other tests run at the same time."""
    kind = in_memory_name("", str(folder))
    return [file for file in Path("/dev/shm").glob(".ring-*") if kind in file.name]


def units_of_threads(trace):
    """By thread the numbers of its units, in order of time."""
    names = np.array([trace.event_name(row) for row in range(len(trace.events))])
    is_unit = np.char.startswith(names, "unit ")
    events = trace.events
    for thread in np.unique(events["thread"][is_unit]):
        rows = np.flatnonzero(is_unit & (events["thread"] == thread))
        rows = rows[np.argsort(events["start_ns"][rows], kind="stable")]
        yield np.array([int(name.split()[1]) for name in names[rows]])


@pytest.mark.parametrize("way", ["SIGSEGV", "exit"])
def test_the_end_of_what_it_did_is_in_the_dump_without_a_gap(way, tmp_path):
    counts_file = tmp_path / "counts"
    counts_file.write_bytes(bytes(4096))
    run_torch(PROGRAM, tmp_path / "dumps", counts_file, way)
    trace = dump_of(tmp_path / "dumps")
    counts = struct.unpack_from("2Q", counts_file.read_bytes())
    threads = list(units_of_threads(trace))
    assert len(threads) == 2
    for units in threads:
        assert (np.diff(units) % UNITS == 1).all()
    last = sorted(int(units[-1]) for units in threads)
    # The last one may have been counted, or not yet.
    possible = [{(count - 1) % UNITS, count % UNITS} for count in counts]
    assert any(a in possible[i] and b in possible[1 - i] for a, b, i in ((*last, 0), (*last, 1))), (
        last,
        counts,
    )
    dump = trace.metadata["dump"]
    detail = "exited with code 3" if way == "exit" else f"killed by {way}"
    assert (dump["reason"], dump["detail"]) == ("death", detail)
    assert dump["limited_by"].startswith("max_memory")
    assert sum(map(len, threads)) < sum(counts)  # it is the end alone
    assert trace.ledger["events"]["dropped: memory budget"] == 0


@pytest.mark.parametrize("end", ["sys.exit(4)", "os.execv('/bin/true', ['true'])"])
def test_an_end_that_the_program_chose_leaves_nothing(end, tmp_path):
    run(
        f"""
        recorder = opscope.flight_recorder(directory=sys.argv[1], triggers=[])
        recorder.start()
        torch.ones(2).add(1)
        {end}
        """,
        tmp_path,
    )
    wait_until(lambda: not list(tmp_path.iterdir()), 30)
    assert not list(tmp_path.iterdir())


def test_a_dump_names_what_threads_were_doing(tmp_path):
    done = run(
        """
        opscope.flight_recorder(directory=sys.argv[1], triggers=[]).start()
        with opscope.record_function("never ends"):
            torch.ones(2).add(1)
            opscope._native.note_in_stream('{"of": "somebody else"}')
            time.sleep(1.5)
            os.kill(os.getpid(), signal.SIGKILL)
        """,
        tmp_path,
    )
    assert done.returncode == -signal.SIGKILL
    trace = dump_of(tmp_path)
    assert "was killed by SIGKILL" in trace.metadata["ended"]["how"]
    (row,) = [e for e in range(len(trace.events)) if trace.event_name(e) == "never ends"]
    assert trace.events["unfinished"][row]
    assert trace.events["duration_ns"][row] > 0.3e9  # until it was last seen to be there
    (saved,) = tmp_path.glob("*.opscope")
    shown = opscope_here("summary", saved).stdout
    assert "dump because of: death (killed by SIGKILL)" in shown
    assert "was in never ends for" in shown


def test_where_the_keeper_was_killed_too_it_is_recovered(tmp_path):
    run(
        """
        import subprocess
        opscope.flight_recorder(directory=sys.argv[1], triggers=[]).start()
        torch.ones(2).add(1)
        found = subprocess.run(["pgrep", "-f", f"keeper_process.py {os.getpid()} "],
                               capture_output=True, text=True, check=True).stdout
        for keeper in found.split():
            os.kill(int(keeper), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        tmp_path,
    )
    (name,) = rings_in(tmp_path)
    file = file_of_ring(name)
    assert file.exists()
    done = opscope_here("doctor", "--recover", tmp_path)
    assert done.returncode == 0 and "dump because of: death" in done.stderr
    assert len(dump_of(tmp_path).events) > 0
    assert not rings_in(tmp_path)
    assert not file.exists()


def test_a_ring_of_a_process_that_runs_is_left_alone(tmp_path):
    with opscope.flight_recorder(directory=tmp_path, triggers=[]):
        (name,) = rings_in(tmp_path)
        assert len(files_of_rings(tmp_path)) == 1
        runs = f"{os.getpid()}, which still runs.*opscope attach --dump"
        with pytest.raises(LifecycleError, match=runs):
            dump_ring(name)
        with pytest.raises(TraceFormatError, match=f"flight recorder, of process {os.getpid()}"):
            opscope.load(tmp_path)
        assert rings_in(tmp_path) == [name]
    assert not rings_in(tmp_path)
    with opscope.flight_recorder(directory=tmp_path, triggers=[], keeper=False):
        assert not rings_in(tmp_path) and not files_of_rings(tmp_path)


def test_a_recording_that_streams_has_the_file_to_itself_and_the_ring_has_one_again(tmp_path):
    done = run(
        """
        folder = sys.argv[1]
        def work(count):
            for _ in range(count):
                torch.ones(2).add(1)
        with opscope.flight_recorder("2s", directory=folder + "/dumps", triggers=[], budget=None):
            work(10)
            with opscope.profile(stream_to=folder + "/stream"):
                work(5_000)
            trace = opscope.load(folder + "/stream")
            print(sum(trace.event_name(e) == "aten::add" for e in range(len(trace.events))))
            time.sleep(0.6)  # a part of the ring
            with opscope.record_function("afterwards"):
                work(1)
            os.kill(os.getpid(), signal.SIGKILL)
        """,
        tmp_path,
    )
    assert done.stdout.strip() == "5000", done.stderr
    trace = dump_of(tmp_path / "dumps")
    assert any(trace.event_name(e) == "afterwards" for e in range(len(trace.events)))


def test_the_program_may_close_its_files_and_remove_the_folder(tmp_path):
    folder = tmp_path / "dumps"
    run(
        """
        import shutil
        with opscope.flight_recorder("2s", directory=sys.argv[1], triggers=[], budget=None,
                                     max_memory="2MiB"):
            os.closerange(3, 65536)
            shutil.rmtree(sys.argv[1])
            until = time.monotonic() + 1.5
            while time.monotonic() < until:
                torch.ones(2).add(1)
            os.kill(os.getpid(), signal.SIGKILL)
        """,
        folder,
    )
    assert len(dump_of(folder).events) > 1000
    assert not files_of_rings(folder)


def test_what_found_no_room_in_the_file_is_reported_to_be_lost(tmp_path):
    done = run(
        """
        import resource
        recorder = opscope.flight_recorder(directory=sys.argv[1], triggers=[], budget=None)
        recorder.start()
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        for _ in range(20_000):
            torch.ones(2).add(1)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        tmp_path,
    )
    assert done.returncode == -signal.SIGKILL
    trace = dump_of(tmp_path)
    lost = trace.ledger["flight recorder"][
        "dropped: blocks of up to 1,364 events, no room in its file"
    ]
    adds = sum(trace.event_name(row) == "aten::add" for row in range(len(trace.events)))
    assert 0 < adds < 20_000
    assert lost * 1364 + len(trace.events) >= 2 * 20_000
    assert "the last part is missing" in trace.metadata["dump"]["limited_by"]
    assert trace.metadata["ended"]["dropped_from_ns"] is not None
    (saved,) = tmp_path.glob("*.opscope")
    shown = opscope_here("summary", saved)
    assert "none dropped" not in shown.stderr


def test_a_program_that_dies_beside_a_recording_that_streams_says_what_is_not_there(tmp_path):
    run(
        """
        with opscope.flight_recorder(directory=sys.argv[1] + "/dumps", triggers=[], budget=None):
            torch.ones(2).add(1)
            with opscope.profile(stream_to=sys.argv[1] + "/stream"):
                torch.ones(2).mul(1)
                time.sleep(1.3)
                os.kill(os.getpid(), signal.SIGKILL)
        """,
        tmp_path,
    )
    trace = dump_of(tmp_path / "dumps")
    names = {trace.event_name(row) for row in range(len(trace.events))}
    assert "aten::add" in names and "aten::mul" not in names
    assert trace.ledger["flight recorder"]["its file ended before the process did"] == 1
    assert "the last part is missing" in trace.metadata["dump"]["limited_by"]


def test_a_child_that_dies_has_a_dump_of_its_own(tmp_path):
    program = tmp_path / "parent.py"
    program.write_text(
        textwrap.dedent(
            """
            import multiprocessing, os, signal, torch

            def dies():
                torch.ones(2).add(1)
                os.kill(os.getpid(), signal.SIGKILL)

            if __name__ == "__main__":
                torch.ones(2).add(1)
                for way in ("spawn", "fork"):
                    child = multiprocessing.get_context(way).Process(target=dies)
                    child.start()
                    child.join()
            """
        )
    )
    options = ["--flight-recorder", "5s", "--children", "-o", str(tmp_path / "dumps")]
    done = run_torch("-m", "opscope", "run", *options, program)
    assert done.returncode == 0, done.stderr
    until = time.monotonic() + 60
    while len(found := list((tmp_path / "dumps").glob("*-death.opscope"))) < 2:
        assert time.monotonic() < until, done.stderr
        time.sleep(0.05)
    assert len({opscope.load(one).metadata["process_id"] for one in found}) == 2
