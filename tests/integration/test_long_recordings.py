"""Recordings that outgrow their file: drained while they go on, one trace in the end."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import opscope
from opscope.errors import LifecycleError
from opscope.recording import segments
from opscope.recording.recovered import about_of, recover_file
from opscope.recording.segments import Drain, draining, segments_folder, segments_of
from opscope.recording.streams.stream import NO_ROOM
from opscope.storage.long_trace import LongTrace
from opscope.storage.manifest import unfinished_recordings
from support.recorded import count

MIB = 1 << 20


@pytest.fixture
def small_segments(monkeypatch):
    monkeypatch.setattr(segments, "RECORDS", 5_000)
    monkeypatch.setattr(segments, "MARGIN_NS", 0)


def spans(count, name="small"):
    for _ in range(count):
        with opscope.record_function(name):
            pass


def streaming(folder, **options):
    return opscope.profile(stream_to=folder, keeper=False, **options)


def the_file(folder):
    return unfinished_recordings(folder)[0]


def drained_once(path):
    """As a keeper does that is killed afterwards."""
    with draining(path):
        drain = Drain(path, about_of(path)["prefixes"])
        while drain.next():
            pass
    return drain


def check_nesting(trace):
    events, end_ns = trace.events, trace.end_ns
    start_ns, parent = events["start_ns"], events["parent"]
    inside = np.flatnonzero(parent >= 0)
    assert np.all(np.diff(start_ns) >= 0)
    assert np.all(parent < np.arange(len(parent)))
    assert np.all(start_ns[inside] >= start_ns[parent[inside]])
    assert np.all(end_ns[inside] <= end_ns[parent[inside]])
    assert np.all(events["thread"][inside] == events["thread"][parent[inside]])


def dropped(trace):
    return trace.ledger["events"][f"dropped: {NO_ROOM}"]


@pytest.mark.usefixtures("small_segments")
def test_what_is_drained_by_several_keepers_is_one_trace(tmp_path):
    folder = tmp_path / "t"
    with streaming(folder, record_shapes=True) as profile:
        with opscope.record_function("around all"):
            for _ in range(4):
                spans(7_000)
                torch.ones(2, 3).sum()
                drained_once(the_file(folder))
        before = len(segments_of(the_file(folder)))
    assert before >= 4
    trace = opscope.load(folder)
    assert [entry.name for entry in folder.iterdir()] == ["rank=00000"]
    assert count(trace, "small") == 28_000
    assert count(trace, "aten::ones") == 4
    assert len(trace.table("tensors")) > 0
    assert dropped(trace) == 0
    assert trace.ledger["events"]["recorded"] == len(trace.events)
    assert trace.ledger["events"]["unfinished"] == 0
    check_nesting(trace)
    around = int(np.flatnonzero(trace.events["name"] == trace.names.find("around all"))[0])
    assert np.all(
        trace.events["parent"][trace.events["name"] == trace.names.find("small")] == around
    )
    assert (
        trace.end_ns[around]
        >= trace.end_ns[trace.events["name"] == trace.names.find("small")].max()
    )
    assert len(profile.trace.events) == len(trace.events)
    # Of what is in no file, but in this process.
    samples = trace.ledger["thread samples"]["recorded"]
    assert samples == len(trace.table("thread_samples")) > 0
    assert trace.ledger["recorder"]["cost_ns of one operator"] > 0


@pytest.mark.usefixtures("small_segments")
def test_a_free_is_of_the_allocation_that_an_earlier_segment_has(tmp_path):
    folder = tmp_path / "t"
    with streaming(folder, profile_memory=True, record_shapes=True):
        kept = []
        for size in (1_000, 2_000, 3_000):
            kept.append(torch.ones(size))
            kept[0].add(1)  # its result takes the place of one before
            spans(6_000)
            drained_once(the_file(folder))
        kept.clear()
    trace = opscope.load(folder)
    assert len(trace.table("events")) > 18_000
    memory, alive, expected = trace.table("allocations"), {}, []
    for row, (size, at) in enumerate(zip(memory["size_bytes"], memory["address"], strict=True)):
        if size > 0:
            alive[at] = row
        expected.append(alive.pop(at) if size < 0 else row)
    ids = memory["allocation_id"]
    assert [ids[row] for row in expected] == ids.tolist()
    assert len(set(ids.tolist())) == (memory["size_bytes"] > 0).sum() >= 6
    storages = trace.table("tensors")
    of_first = storages["allocation_id"][storages["storage"] == memory["address"][0]]
    assert ids[0] in of_first
    assert trace.ledger["tensor ids"]["unknown: the recording is too long"] == len(storages)


@pytest.mark.usefixtures("small_segments")
def test_runs_of_tasks_are_in_the_segments_that_they_ran_in(tmp_path):
    folder, x = tmp_path / "t", torch.ones(3)

    async def handle():
        for _ in range(20):
            for _ in range(200):
                x.add(1)
            await asyncio.sleep(0)

    async def serve():
        for _ in range(3):
            await asyncio.gather(handle(), handle())
            drained_once(the_file(folder))

    with streaming(folder, with_asyncio=True):
        asyncio.run(serve())
    trace = opscope.load(folder)
    runs, names = trace.table("task_runs"), trace.names
    inside = trace.events["parent"][trace.events["name"] == names.find("aten::add")]
    assert len(inside) == 24_000 and np.isin(inside, runs["event"]).all()
    assert len(np.unique(runs["event"])) == len(runs) >= 6 * 20
    task_names = trace.table("tasks")["name"][runs["task"]]
    assert len(np.unique(task_names)) >= 7  # serve() and six of handle()
    assert all(names[name].startswith("Task-") for name in task_names.tolist())
    check_nesting(trace)


@pytest.mark.usefixtures("small_segments")
def test_recordings_that_begin_beside_a_long_one_keep_only_what_they_need(tmp_path):
    x = torch.ones(3)
    with opscope.profile() as unread, streaming(tmp_path / "t", max_disk=8 * MIB):
        unread.stop()
        for _ in range(5):
            with opscope.profile(record_shapes=True) as beside:
                spans(20_000)
                for _ in range(500):
                    x.add(1)
            drained_once(the_file(tmp_path / "t"))
            spans(5_000, "between")  # takes what was drained, but for what `beside` needs
            assert count(beside.trace, "small") == 20_000
            assert list(beside.trace.table("tensors").lists("sizes")).count([3]) == 500
            check_nesting(beside.trace)
    trace = opscope.load(tmp_path / "t")
    assert count(trace, "small") == 100_000 and dropped(trace) == 0


@pytest.mark.usefixtures("small_segments")
def test_what_finds_no_room_is_a_gap_that_is_counted(tmp_path):
    folder = tmp_path / "t"
    with streaming(folder, max_disk=4 * MIB):
        spans(100_000)
        drained_once(the_file(folder))
        spans(20_000, "after")
    trace = opscope.load(folder)
    assert dropped(trace) > 0
    assert count(trace, "small") + dropped(trace) == 100_000
    assert count(trace, "after") == 20_000
    assert trace.ledger["recording"]["periods without free disk space"] == 1


DRAINS = """
import sys, time
from opscope.recording import segments
from opscope.recording.segments import draining
from opscope.recording.recovered import about_of
from pathlib import Path

segments.RECORDS, segments.MARGIN_NS = 5_000, 0
path = Path(sys.argv[1])
while True:
    with draining(path):
        segments.Drain(path, about_of(path)["prefixes"]).next()
    time.sleep(0.01)
"""


def test_children_that_are_forked_while_it_is_drained(tmp_path):
    folder, rounds = tmp_path / "t", 0
    with streaming(folder):
        path = the_file(folder)
        with subprocess.Popen([sys.executable, "-c", DRAINS, path]) as drains:
            while len(segments_of(path)) < 3 or rounds < 6:
                spans(500)
                rounds += 1
                child = os.fork()
                if child == 0:
                    with streaming(tmp_path / str(rounds)):
                        spans(300, "of a child")
                    os._exit(0)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            drains.kill()
    trace = opscope.load(folder)
    assert count(trace, "small") == 500 * rounds
    assert count(trace, "of a child") == 0
    check_nesting(trace)
    own = [opscope.load(tmp_path / str(number + 1)) for number in range(rounds)]
    assert {(count(t, "small"), count(t, "of a child")) for t in own} == {(0, 300)}


@pytest.mark.usefixtures("small_segments")
def test_a_segment_that_was_not_finished_is_made_again(tmp_path):
    folder = tmp_path / "t"
    with streaming(folder):
        spans(20_000)
        path = the_file(folder)
        number = len(drained_once(path).segments)
        unfinished = segments_folder(path) / f"unfinished-{number:06d}"
        unfinished.mkdir()
        (unfinished / "events.parquet").write_bytes(b"half of it")
        spans(20_000)
        drained_once(path)
        assert not unfinished.exists()
    assert count(opscope.load(folder), "small") == 40_000


@pytest.mark.usefixtures("small_segments")
def test_a_recording_that_goes_on_is_read_as_far_as_it_came(tmp_path):
    folder = tmp_path / "t"
    with streaming(folder), opscope.record_function("open"):
        spans(20_000)
        path = the_file(folder)
        drained_once(path)
        kept = len(segments_of(path))
        spans(100)
        read = opscope.load(folder)
        assert read.metadata["ended"]["how"] == "it is still being recorded"
        assert count(read, "small") == 20_100
        opened = np.flatnonzero(read.events["name"] == read.names.find("open"))
        assert read.events["unfinished"][opened].tolist() == [True]
        assert len(segments_of(path)) == kept
        with pytest.raises(LifecycleError, match="still runs"):
            recover_file(path)
    assert count(opscope.load(folder), "small") == 20_100


@pytest.mark.usefixtures("small_segments")
def test_devices_and_tasks_stay_in_the_file(tmp_path):
    from opscope.recording.recovered import drain_while

    folder = tmp_path / "t"
    with streaming(folder, with_asyncio=True):
        spans(20_000)
        drain_while(the_file(folder), lambda: False)
        assert segments_of(the_file(folder)) == []
    assert count(opscope.load(folder), "small") == 20_000


PROGRAM = """
import mmap, os, sys, threading
import opscope

counted = mmap.mmap(os.open(sys.argv[2], os.O_RDWR), 4096)
numbers = memoryview(counted).cast("Q")
profile = opscope.profile(stream_to=sys.argv[1], max_disk=32 << 20)
profile.start()

def work(place):
    with opscope.record_function("around"):
        while True:
            with opscope.record_function("small"):
                numbers[place] += 1

for place in range(2):
    threading.Thread(target=work, args=(place,), daemon=True).start()
print("runs", flush=True)
threading.Event().wait()
"""


def begun(folder, counts):
    counts.write_bytes(bytes(4096))
    command = [sys.executable, "-c", PROGRAM, os.fspath(folder), os.fspath(counts)]
    program = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert program.stdout.readline() == "runs\n"
    return program


def processes_about(folder):
    """Ids of processes that have the folder in their command line, besides this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(os.fsencode(folder) in word for word in words):
                found.append(int(entry.name))
    return found


def wait_for_segments(folder, number):
    while True:
        files = unfinished_recordings(folder)
        if files and len(segments_of(files[0])) >= number:
            return files[0]


def check_counts(trace, counts):
    total = int(np.frombuffer(counts.read_bytes(), np.uint64).sum())
    recorded = count(trace, "small") + dropped(trace)
    assert (
        abs(recorded - total) <= 2 * 2
    )  # each thread may have been between counting and recording
    check_nesting(trace)


def test_a_program_and_all_that_drain_it_are_killed(tmp_path):
    folder, counts = tmp_path / "t", tmp_path / "counts"
    program = begun(folder, counts)
    path = wait_for_segments(folder, 2)
    while others := [p for p in processes_about(folder) if p != program.pid]:
        for process in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    program.kill()
    program.wait()
    begun_segments = len(segments_of(path))
    trace, saved = recover_file(path)
    assert begun_segments >= 2
    assert saved == folder
    assert len(trace.events) < LongTrace.at(folder).rows["events"]
    check_counts(opscope.load(folder), counts)
