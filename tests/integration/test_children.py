"""`opscope run --children`: every process of a program is a part of one folder, and unharmed."""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import opscope
from opscope.cli import main
from opscope.live.children import start_hook
from opscope.storage.manifest import unfinished_recordings
from opscope.storage.processes import Processes
from support.processes import run_python, wait_until
from support.recorded import count
from support.torch_processes import run_torch

torch = pytest.importorskip("torch", reason="records programs of torch")

HOOK = os.path.dirname(start_hook.__file__)

WAITS = """
import glob, os

def wait_until_watched():
    # Of one that is over before the keeper has seen it, nobody but its parent knows how.
    mine, is_watched = f"Pid:\\t{os.getpid()}\\n", False
    while not is_watched:
        for file in glob.iglob("/proc/[0-9]*/fdinfo/*"):
            try:
                is_watched |= mine in open(file).read()
            except OSError:
                pass
"""

KINDS = """
import multiprocessing, os, signal, subprocess, sys, torch
from waits import wait_until_watched

def work(times, how="return"):
    for _ in range(times):
        torch.ones(4).add(1)
    wait_until_watched()
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        os._exit(5)

AWAITED = f"import sys; sys.path.append({sys.path[0]!r}); import waits; waits.wait_until_watched();"

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return torch.ones(3).mul(index)

def child(method, *arguments):
    process = multiprocessing.get_context(method).Process(target=work, args=arguments)
    process.start()
    process.join()
    return process.pid, process.exitcode

if __name__ == "__main__":
    work(3)
    told = {"main": (os.getpid(), 0)}
    for method in ("fork", "spawn", "forkserver"):
        told[method] = child(method, 5)
    told["killed"] = child("fork", 7, "kill")
    told["left"] = child("fork", 9, "exit")
    plain = subprocess.Popen([sys.executable, "-c", AWAITED + "raise SystemExit(6)"])
    told["without torch"] = (plain.pid, plain.wait())
    source = AWAITED + "import torch; torch.ones(3); raise SystemExit(7)"
    program = subprocess.Popen([sys.executable, "-c", source])
    told["program"] = (program.pid, program.wait())
    loader = torch.utils.data.DataLoader(Data(), num_workers=2, batch_size=2)
    batches = iter(loader)
    told["workers"] = [worker.pid for worker in batches._workers]
    list(batches)
    print(__import__("json").dumps(told))
    sys.exit(3)
"""


def run_with_children(folder, source, *options, arguments=(), **more):
    program = Path(f"{folder}.py")
    program.write_text(source)
    command = ("-m", "opscope", "run", "--children", *options, "-o", folder, program, *arguments)
    return run_torch(*command, **more)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job") / "kinds"
    (folder.parent / "waits.py").write_text(WAITS)
    done = run_with_children(folder, KINDS)
    assert done.returncode == 3, done.stderr
    return folder, json.loads(done.stdout), done.stderr


def entry_of(folder, process):
    return next(e for e in Processes.in_folder(folder).entries if e.process_id == process)


ADDS = {"main": 3, "fork": 5, "spawn": 5, "forkserver": 5, "killed": 7, "left": 9}


def test_every_kind_of_child_is_a_part_of_the_folder(job):
    folder, told, _ = job
    traces = {kind: opscope.load(folder, process=told[kind][0]) for kind in ADDS}
    assert {kind: count(trace, "aten::add") for kind, trace in traces.items()} == ADDS
    for kind, trace in traces.items():
        assert trace.metadata["process_id"] == told[kind][0]


@pytest.mark.parametrize("kind", ["fork", "killed", "left", "program", "without torch"])
def test_how_each_ended_is_known(job, kind):
    folder, told, _ = job
    process, code = told[kind]
    killed = "killed by SIGKILL"
    assert entry_of(folder, process).ended == (killed if code < 0 else f"exited with code {code}")


def test_how_children_began_and_who_began_them_is_known(job):
    folder, told, said = job
    root = told["main"][0]
    assert entry_of(folder, root).how_begun == "program"
    assert entry_of(folder, told["fork"][0]).parent_id == root
    assert entry_of(folder, told["fork"][0]).how_begun == "forked"
    program = entry_of(folder, told["program"][0])
    assert (program.how_begun, program.parent_id) == ("started", root)
    assert program.command[1] == "-c"
    metadata = opscope.load(folder, process=told["program"][0]).metadata
    assert metadata["parent_process_id"] == root
    assert metadata["command_line"] == list(program.command)

    assert entry_of(folder, told["without torch"][0]).partition is None
    assert "did not import torch, so they were not recorded" in said

    assert "SIGKILL" in opscope.load(folder, process=told["killed"][0]).metadata["ended"]["how"]
    for kind in ("main", "fork", "spawn", "program"):
        assert "ended" not in opscope.load(folder, process=told[kind][0]).metadata

    products = [count(opscope.load(folder, process=pid), "aten::mul") for pid in told["workers"]]
    assert sum(products) == 4

    assert unfinished_recordings(folder) == []
    # Whoever copies a pipe waits for what is written to it, for ever.
    wait_until(lambda: all(one.is_file() or one.is_dir() for one in folder.rglob("*")))


@pytest.mark.parametrize("kind", ["fork", "spawn", "forkserver", "program"])
def test_what_is_in_the_memory_of_a_child_alone_is_in_its_trace(job, kind):
    folder, told, _ = job
    trace = opscope.load(folder, process=told[kind][0])
    samples = trace.table("thread_samples")
    assert len(samples) == trace.ledger["thread samples"]["recorded"] > 0


def test_all_together_are_on_one_clock(job):
    folder, told, _ = job
    trace = opscope.load(folder).together()
    start_ns = trace.events["start_ns"]
    assert np.all(np.diff(start_ns) >= 0)
    owner = trace.table("threads")["process_id"][trace.events["thread"]]
    # What the main process did came first, and each child ended before the next one began.
    first = [start_ns[owner == told[kind][0]].min() for kind in ("main", "fork", "spawn", "killed")]
    last = [start_ns[owner == told[kind][0]].max() for kind in ("fork", "spawn", "killed", "left")]
    assert first == sorted(first)
    assert last == sorted(last)
    assert count(trace, "aten::add") == 3 + 3 * 5 + 7 + 9


def test_commands_list_the_processes_or_say_which_there_are(job, capsys):
    folder, told, _ = job
    main(["summary", str(folder), "--format", "json"])
    said = json.loads(capsys.readouterr().out)
    rows = {row["process"]: row for row in said["processes"]}
    assert rows[told["killed"][0]]["ended"] == "killed by SIGKILL"
    assert rows[told["killed"][0]]["events"] > 7
    assert rows[told["without torch"][0]]["events"] is None

    with pytest.raises(SystemExit):
        main(["export", "--replay", str(folder)])
    refused = capsys.readouterr().err
    assert f"process {told['main'][0]}" in refused and "--process" in refused


NESTED = """
import os, subprocess, sys, torch
depth = int(sys.argv[1]) if len(sys.argv) > 1 else 2
torch.ones(3).add(depth)
child = os.fork()
if child == 0:
    if depth:
        os.execv(sys.executable, [sys.executable, __file__, str(depth - 1)])
    torch.ones(3).mul(2)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_children_of_children_and_those_that_become_another_program(tmp_path):
    folder = tmp_path / "nested"
    done = run_with_children(folder, NESTED)
    assert done.returncode == 0, done.stderr
    found = Processes.in_folder(folder)
    traces = [found.load(entry.partition) for entry in found.recorded]
    assert sum(count(trace, "aten::add") for trace in traces) == 3
    assert sum(count(trace, "aten::mul") for trace in traces) == 1


OUTLIVING = """
import os, sys, time, torch
torch.ones(3).add(1)
if os.fork() == 0:
    os.setsid()
    for stream in (1, 2):  # whoever reads what the program writes need not wait for this
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    torch.ones(3).mul(1)
    while os.path.exists(sys.argv[0] + ".go"):
        time.sleep(0.01)
    torch.ones(3).sub(1)
    os._exit(0)
"""


def test_a_child_that_outlives_the_program_is_written_when_it_ends(tmp_path):
    folder, go = tmp_path / "outliving", tmp_path / "outliving.py.go"
    go.touch()
    done = run_with_children(folder, OUTLIVING)
    assert done.returncode == 0, done.stderr
    assert "still run" in done.stderr
    child = next(e for e in Processes.in_folder(folder).entries if e.how_begun == "forked")
    running = opscope.load(folder, process=child.process_id)
    assert (count(running, "aten::mul"), count(running, "aten::sub")) == (1, 0)
    go.unlink()
    wait_until(lambda: child.partition in Processes.in_folder(folder).parts)
    assert count(opscope.load(folder, process=child.process_id), "aten::sub") == 1


KILLED_TOGETHER = """
import os, signal, sys, torch
torch.ones(3).add(1)
ready, tell = os.pipe()
if os.fork() == 0:
    torch.ones(3).mul(1)
    os.write(tell, b".")
    signal.pause()
os.read(ready, 1)
os.killpg(os.getpgrp(), signal.SIGKILL)
"""


def test_a_program_that_is_killed_with_its_children_leaves_them_all(tmp_path):
    folder = tmp_path / "killed"
    done = run_with_children(folder, KILLED_TOGETHER, start_new_session=True)
    assert done.returncode == -signal.SIGKILL
    wait_until(lambda: not unfinished_recordings(folder))
    found = Processes.in_folder(folder)
    traces = [found.load(entry.partition) for entry in found.recorded]
    assert sorted(count(trace, "aten::mul") for trace in traces) == [0, 1]
    wait_until(lambda: all(e.ended for e in Processes.in_folder(folder).entries))
    assert {e.ended for e in Processes.in_folder(folder).entries} == {"killed by SIGKILL"}


KILLED_EARLY = """
import json, os, signal, sys, time, torch
torch.ones(1)
waited_for_later = []
for number in range(8):
    child = os.fork()
    if child == 0:
        time.sleep(20)
        os._exit(0)
    time.sleep(0.001 * number)
    os.kill(child, signal.SIGKILL)
    if number % 2:
        waited_for_later.append(child)
    else:
        os.waitpid(child, 0)  # before anybody else may have seen how it ended
def known(event):
    with open(os.path.join(sys.argv[1], "processes.jsonl")) as journal:
        lines = [json.loads(line) for line in journal]
    return {line["process"] for line in lines if line["event"] == event}
while not known("began") & set(waited_for_later) <= known("ended"):
    time.sleep(0.01)
for child in waited_for_later:
    os.waitpid(child, 0)
print(*waited_for_later)
"""


def test_children_that_are_killed_as_they_begin_take_no_other_along(tmp_path):
    folder = tmp_path / "taken"
    done = run_with_children(folder, KILLED_EARLY, arguments=[folder])
    assert done.returncode == 0, done.stderr
    assert "did not import torch" not in done.stderr
    entries = Processes.in_folder(folder).entries
    children = [entry for entry in entries if entry.how_begun == "forked"]
    assert all(entry.has_torch for entry in children)
    known = [entry for entry in children if str(entry.process_id) in done.stdout.split()]
    assert {entry.ended for entry in known} <= {"killed by SIGKILL"}
    assert {entry.ended for entry in children} <= {"killed by SIGKILL", ""}
    recorded = Processes.in_folder(folder).parts
    (program_part,) = (entry.partition for entry in entries if entry.how_begun == "program")
    assert program_part in recorded
    assert len(opscope.load(folder, process=program_part.number).events) > 0
    assert unfinished_recordings(folder) == []
    early = len(entries) - len(recorded)
    assert early == 0 or f"{early} ended before their recordings began" in done.stderr


REMOVED = """
import os, shutil, subprocess, sys, torch
torch.ones(3).add(1)
shutil.rmtree(os.environ["OPSCOPE_CHILDREN"])
print(subprocess.call([sys.executable, "-c", "import torch; torch.ones(3); raise SystemExit(4)"]))
child = os.fork()
if child == 0:
    os._exit(int(torch.ones(5).sum()))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_children_after_the_folder_was_removed_run_as_ever(tmp_path):
    done = run_with_children(tmp_path / "removed", REMOVED)
    assert (done.returncode, done.stdout) == (0, "4\n5\n"), done.stderr
    assert [str(part) for part in Processes.in_folder(tmp_path / "removed").parts] != []


def test_a_sitecustomize_of_the_users_runs_and_nothing_else_is_seen(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("value = 41")
    look = "import sys, sitecustomize; print(sitecustomize.value, sitecustomize.__file__, sys.path)"

    def seen(path):
        environment = {**os.environ, "PYTHONPATH": path}
        return run_python("-c", look, env=environment).stdout

    assert seen(os.pathsep.join([HOOK, str(tmp_path)])) == seen(str(tmp_path)) != ""


def hooked(folder, version):
    """The environment of a child, in a folder with an empty journal."""
    (folder / "processes.jsonl").touch()
    more = {"OPSCOPE_CHILDREN": str(folder), "OPSCOPE_CHILDREN_PYTHON": version}
    return {**os.environ, "PYTHONPATH": HOOK, **more}


def test_a_child_without_torch_imports_next_to_nothing(tmp_path):
    environment = hooked(tmp_path, sys.implementation.cache_tag)
    look = ("-c", "import sys; print(*sys.modules)")
    with_hook, without = run_python(*look, env=environment).stdout, run_python(*look).stdout
    more = {*with_hook.split()} - {*without.split()} - {"__future__"}
    assert more == {"opscope_children", "_json"}
    (entry,) = Processes.in_folder(tmp_path).entries
    assert entry.how_begun == "started"


def test_a_python_of_another_version_is_listed_and_says_why(tmp_path):
    program = "import torch, sys; print('opscope' in sys.modules)"
    done = run_python("-c", program, env=hooked(tmp_path, "cpython-27"))
    assert done.stdout == "False\n"
    (entry,) = Processes.in_folder(tmp_path).entries
    assert "another version" in entry.refused


def test_children_in_memory_alone_are_refused(tmp_path):
    done = run_with_children(tmp_path / "t", "", "--no-stream")
    assert done.returncode == 2
    assert "Use only one of them" in done.stderr
    assert not (tmp_path / "t").exists()
