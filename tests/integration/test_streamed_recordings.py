"""Recordings that are in a file while they run: what is in it, and what becomes of it."""

import os
import resource
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import opscope
from opscope.columns.table import ListColumn
from opscope.errors import UsageError
from opscope.launch.keeper_process import BECAME_ANOTHER, NOT_WRITTEN
from opscope.recording import recovered
from opscope.recording.recovered import recover_file
from opscope.storage.manifest import unfinished_recordings
from support.recorded import count
from support.torch_processes import run_torch

EVERYTHING = {
    "record_shapes": True,
    "profile_memory": True,
    "with_stack": True,
    "with_modules": True,
    "record_outputs": True,
}


def work(times=20):
    model = torch.nn.Linear(4, 4)
    for _ in range(times):
        with opscope.record_function("step"):
            model(torch.ones(2, 4)).sum().backward()


def streaming(folder, **options):
    return opscope.profile(stream_to=folder, keeper=False, **options)


def in_a_program(source, *arguments):
    program = f"import os, signal, sys, threading, torch, opscope\n{source}"
    return run_torch("-c", program, *arguments).returncode


def test_what_a_file_has_is_what_the_process_has(tmp_path):
    profile = streaming(tmp_path / "t", **EVERYTHING)
    profile.save_streamed = lambda: None
    with profile:
        work()
        other = threading.Thread(target=work)
        other.start()
        other.join()
    here, there = profile.trace, opscope.load(tmp_path / "t")
    assert there.metadata["ended"]["whole"]
    assert len(there.events) == len(here.events) > 1000
    for table in ("events", "tensors", "scalars", "allocations", "python_calls", "frames"):
        one, other = here.table(table), there.table(table)
        for column in one.schema.columns:
            if one.has(column.name) and not isinstance(one._column(column.name), ListColumn):
                mine, theirs = one[column.name], other[column.name]
                np.testing.assert_array_equal(mine, theirs, f"{table}.{column.name}")
    assert there.metadata["options"] == here.metadata["options"]
    assert there.metadata["process_id"] == os.getpid()


# What a keeper sees: nothing of it was mapped any more, or a process that could write no file.
@pytest.mark.parametrize("seen", [BECAME_ANOTHER, f"its process exited with code 0 {NOT_WRITTEN}"])
def test_what_its_keeper_says_of_a_recording_that_came_to_its_end(tmp_path, seen):
    in_a_program(
        """
profile = opscope.profile(stream_to=sys.argv[1], keeper=False)
profile.save_streamed = lambda: os._exit(0)
with profile:
    torch.ones(2).add(1)
""",
        tmp_path,
    )
    (path,) = unfinished_recordings(tmp_path)
    trace, _ = recover_file(path, how=seen)
    assert trace.metadata["ended"]["how"] == recovered.STOPPED


def test_a_program_that_was_killed_left_all_it_did(tmp_path):
    code = in_a_program(
        """
model = torch.nn.Sequential(torch.nn.Linear(4, 4))
more = {"with_modules": True, "record_shapes": True}
profile = opscope.profile(stream_to=sys.argv[1], keeper=False, **more)
profile.start()
for i in range(50):
    with opscope.record_function("step"):
        model(torch.ones(2, 4))
        if i == 40:
            os.kill(os.getpid(), signal.SIGKILL)
""",
        tmp_path,
    )
    assert code == -signal.SIGKILL
    trace = opscope.load(tmp_path)
    assert count(trace, "step") == 41 == count(trace, "aten::linear")
    (unfinished,) = np.flatnonzero(trace.events["unfinished"])
    assert trace.names[trace.events["name"][unfinished]] == "step"
    assert trace.ledger["recording"]["has no end: its process ended first"] == 1
    assert len(trace.table("tensors")) > 41
    modules = trace.table("modules")
    assert [trace.names[row] for row in modules["path"].tolist()] == ["", "0"]
    (path,) = unfinished_recordings(tmp_path)
    saved, folder = recover_file(path, how="its process was killed by SIGKILL")
    assert unfinished_recordings(tmp_path) == [] and folder == tmp_path
    again = opscope.load(tmp_path)
    assert again.metadata["ended"]["how"] == "its process was killed by SIGKILL"
    np.testing.assert_array_equal(again.events["start_ns"], saved.events["start_ns"])


def test_a_child_that_leaves_the_block_of_its_parent_leaves_the_recording_too(tmp_path):
    code = in_a_program(
        """
with opscope.profile(stream_to=sys.argv[1], keeper=False):
    torch.ones(3)
    if (child := os.fork()) == 0:
        torch.ones(3)
        sys.exit(7)
    assert os.waitpid(child, 0)[1] == 7 << 8
    assert all(name.startswith(".") for name in os.listdir(sys.argv[1])), os.listdir(sys.argv[1])
    torch.ones(3)
    os.kill(os.getpid(), signal.SIGKILL)
""",
        tmp_path,
    )
    assert code == -signal.SIGKILL
    assert count(opscope.load(tmp_path), "aten::ones") == 2


def test_a_child_that_goes_on_with_a_schedule_leaves_the_folder_to_its_parent(tmp_path):
    code = in_a_program(
        """
schedule = opscope.schedule(wait=0, warmup=0, active=1, repeat=2)
with opscope.profile(stream_to=sys.argv[1], keeper=False, schedule=schedule) as profile:
    torch.ones(3)
    if (child := os.fork()) == 0:
        profile.step()
        torch.zeros(3)
        profile.step()
        assert profile.trace.names  # it has one of its own
        sys.exit(7)
    assert os.waitpid(child, 0)[1] == 7 << 8
    assert os.listdir(sys.argv[1]) == ["cycle-1"], os.listdir(sys.argv[1])
    profile.step()
    torch.ones(3)
    os.kill(os.getpid(), signal.SIGKILL)
""",
        tmp_path,
    )
    assert code == -signal.SIGKILL
    assert count(opscope.load(tmp_path / "cycle-1"), "aten::ones") == 1
    assert count(opscope.load(tmp_path / "cycle-2"), "aten::ones") == 1


def test_a_full_disk_keeps_what_is_to_be_recovered_and_says_how(tmp_path):
    code = in_a_program(
        """
profile = opscope.profile(stream_to=sys.argv[1], keeper=False)
profile.start()
torch.ones(3).add(1)
os._exit(0)
""",
        tmp_path,
    )
    (path,) = unfinished_recordings(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        with pytest.raises(UsageError, match="kept; free space") as refused:
            recover_file(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert code == 0 and f"`opscope doctor --recover {tmp_path}`" in str(refused.value)
    trace, _ = recover_file(path)
    assert count(trace, "aten::add") == 1


def test_a_cycle_that_cannot_be_written_ends_no_program_and_is_kept(tmp_path, capfd):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    schedule = opscope.schedule(wait=0, warmup=0, active=1, repeat=2)
    profile = opscope.profile(stream_to=tmp_path / "t", keeper=False, schedule=schedule)
    profile.start()
    with opscope.record_function("before"):
        work(1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        profile.step()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    said = capfd.readouterr().err
    assert said.count("the trace was not written") == 1 and "Too many open files" in said
    assert f"opscope doctor --recover {tmp_path / 't'}" in said
    assert said.count("only in memory until it ends") == 1
    first, second = (tmp_path / "t" / f"cycle-{number}" for number in (1, 2))
    assert len(unfinished_recordings(first)) == 1
    with opscope.record_function("afterwards"):
        work(1)
    profile.stop()
    assert count(opscope.load(second), "afterwards") == 1
    assert not unfinished_recordings(second)
    assert count(opscope.load(first), "before") == 1


def test_where_a_full_disk_leaves_no_room_for_a_file_that_is_reported(tmp_path, monkeypatch):
    full = SimpleNamespace(total=1 << 30, used=1 << 30, free=0)
    monkeypatch.setattr("opscope.recording.streams.stream.shutil.disk_usage", lambda _: full)
    with pytest.raises(UsageError, match="No space left"):
        streaming(tmp_path).start()


def test_an_earlier_trace_is_not_taken_for_the_one_that_did_not_end(tmp_path):
    with streaming(tmp_path), opscope.record_function("first"):
        work(1)
    in_a_program(
        """
profile = opscope.profile(stream_to=sys.argv[1], keeper=False)
profile.start()
with opscope.record_function("second"):
    os._exit(5)
""",
        tmp_path,
    )
    assert count(opscope.load(tmp_path), "second") == 1
    (path,) = unfinished_recordings(tmp_path)
    recover_file(path)
    assert count(opscope.load(tmp_path), "second") == 1


def test_a_rank_that_did_not_end_is_not_taken_for_another(tmp_path):
    with opscope.profile() as profile:
        work(1)
    profile.trace.save(tmp_path, rank=0)
    for rank in (0, 1):
        other = streaming(tmp_path)
        other._streams.rank, other._streams.saves = rank, False
        with other, opscope.record_function(f"of {rank}"):
            work(2)
        if rank == 0:
            other.trace.save(tmp_path, rank=0)
            other.discard_streams()
    assert list(map(str, opscope.load(tmp_path).unfinished)) == ["rank 1"]
    assert count(opscope.load(tmp_path, rank=0), "of 0") == 1
    assert count(opscope.load(tmp_path, rank=1), "of 1") == 1
    with pytest.raises(UsageError, match="no rank 2"):
        opscope.load(tmp_path, rank=2)


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    profile = streaming(tmp_path / "file" / "t")
    with pytest.raises(UsageError, match=r"cannot be written to .* while it runs: Not a directory"):
        profile.start()
    work()
    with streaming(tmp_path / "t"):  # and the next one can
        work()
    assert count(opscope.load(tmp_path / "t"), "step") == 20


def test_a_second_recording_meanwhile_is_in_memory(tmp_path, capsys):
    with streaming(tmp_path / "one"), streaming(tmp_path / "two") as second:
        work()
    assert "is already written to a file" in capsys.readouterr().err
    assert count(second.trace, "step") == 20
    assert count(opscope.load(tmp_path / "one"), "step") == 20


def test_one_that_no_process_has_any_more_makes_room_for_the_next(tmp_path, capsys):
    streaming(tmp_path / "one").start()
    with streaming(tmp_path / "two"):
        work()
        assert len(unfinished_recordings(tmp_path / "two")) == 1
    assert capsys.readouterr().err == ""
    assert count(opscope.load(tmp_path / "two"), "step") == 20


def test_the_folder_may_be_removed(tmp_path):
    with streaming(tmp_path / "t") as profile:
        work(10)
        (path,) = unfinished_recordings(tmp_path / "t")
        path.unlink()
        (tmp_path / "t").rmdir()
        work(2000)
    assert count(profile.trace, "step") == 2010
    assert count(opscope.load(tmp_path / "t"), "step") == 2010


def test_memory_of_ended_recordings_is_given_back(tmp_path):
    def mapped():
        with open("/proc/self/maps") as maps:
            return sum(".recording-" in line and str(tmp_path) in line for line in maps)

    for number in range(5):
        with streaming(tmp_path / str(number)) as profile:
            work(200)
        assert count(profile.trace, "step") == 200
    del profile
    assert mapped() <= 2  # what threads that record nothing now wrote to last
