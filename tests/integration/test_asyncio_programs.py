"""Torch programs with asyncio tasks: whose work each operator is, in trees, files and reports."""

import asyncio
import json
import os
import signal
import sys
import threading
import traceback

import pytest
import torch

import opscope
from opscope.timeline.tree.node import NodeKind
from support.recorded import record
from support.torch_processes import run_torch

RUN = NodeKind("task_run")


async def work(size, rounds):
    for _ in range(rounds):
        torch.ones(size)
        await asyncio.sleep(0)


async def nested(size):
    await asyncio.gather(work(size, 2), work(size + 1, 3))


async def program():
    await asyncio.gather(nested(2), nested(8))


@pytest.fixture(scope="module")
def trace():
    return record(lambda: asyncio.run(program()), with_asyncio=True, record_shapes=True)


def runs_by_name(trace):
    found = {}
    for node in trace.tree().depth_first():
        if node.kind is RUN:
            found.setdefault(node.name.removeprefix("asyncio task: "), []).append(node)
    return found


def test_every_operator_is_in_a_run_of_its_own_task(trace):
    runs = runs_by_name(trace)
    # Each has a run for each round, and one that ends it.
    assert (
        len(runs["work"]) == 2 * (3 + 4) and len(runs["nested"]) == 4 and len(runs["program"]) == 2
    )
    outermost = [[child.name for child in run.children] for run in runs["work"]]
    assert sorted(outermost) == [[]] * 4 + [["aten::ones"]] * 10
    others = [node for node in trace.tree().roots if node.kind is not RUN]
    assert others == []

    sizes = {}
    task_of = dict(
        zip(*(trace.table("task_runs")[c].tolist() for c in ("event", "task")), strict=True)
    )
    for run in runs_by_name(trace)["work"]:
        for node in run.children:
            (size,) = node.detail.inputs[0].value
            sizes.setdefault(task_of[run.row], []).append(size)
    assert sorted(sizes.values()) == [[2, 2], [3, 3, 3], [8, 8], [9, 9, 9]]

    assert trace.ledger["asyncio tasks"] == {
        "runs recorded": len(trace.table("task_runs")),
        "tasks recorded": len(trace.table("tasks")),
    }
    assert len(trace.table("tasks")) >= 1 + 2 + 4


def test_a_program_without_tasks_says_so():
    quiet = record(lambda: torch.ones(2), with_asyncio=True)
    assert quiet.ledger["asyncio tasks"] == {"runs recorded": 0, "tasks recorded": 0}
    assert "asyncio tasks" not in record(lambda: torch.ones(2)).ledger


def test_files_for_viewers_have_the_runs(tmp_path):
    with opscope.profile(with_asyncio=True) as prof:
        asyncio.run(program())
    prof.export_chrome_trace(tmp_path / "trace.json")
    written = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    runs = [event for event in written if event.get("cat") == "asyncio"]
    assert len(runs) == len(prof.trace.table("task_runs"))
    prof.export_perfetto(tmp_path / "trace.pftrace")
    prof.export_report(tmp_path / "page.html")
    assert "asyncio task: work" in prof.key_averages().table(row_limit=-1)


def test_the_switch_of_the_command_line(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import asyncio, torch\n"
        "async def main():\n"
        "    await asyncio.sleep(0)\n"
        "    torch.ones(2)\n"
        "asyncio.run(main())\n"
    )
    done = run_torch("-m", "opscope", "run", "--asyncio", "-o", "out", "script.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    trace = opscope.load(tmp_path / "out")
    assert len(runs_by_name(trace)["main"]) == 2
    assert trace.metadata["options"]["asyncio"] is True


def operators_in_runs(trace):
    """Operators directly inside runs, by the name of the task's function."""
    runs = runs_by_name(trace)
    return {name: sum(len(run.children) for run in found) for name, found in runs.items()}


def test_a_recording_that_other_threads_start_and_stop():
    prof = opscope.profile(with_asyncio=True)

    async def main():
        await asyncio.gather(asyncio.to_thread(prof.start), work(2, 3))
        await work(4, 5)
        await asyncio.gather(asyncio.to_thread(prof.stop), work(2, 3))

    asyncio.run(main())
    found = operators_in_runs(prof.trace)
    (name,) = (name for name in found if name.endswith("main"))
    assert found[name] == 5
    roots = [node.name for node in prof.trace.tree().roots if node.kind is not RUN]
    assert "aten::ones" not in roots


def test_a_child_that_is_forked_in_the_middle_of_a_run_records_its_own():
    async def fork():
        await asyncio.sleep(0)
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        try:
            with opscope.profile(with_asyncio=True) as own:
                if sys.version_info < (3, 14):
                    await work(3, 2)
                else:  # where loops do not go on in forked children
                    [torch.ones(3) for _ in range(2)]
                thread = threading.Thread(target=lambda: asyncio.run(program()))
                thread.start()
                thread.join()
            found = operators_in_runs(own.trace)
            expected = {"work": 2 * (2 + 3), "nested": 0, "program": 0}
            is_there = all(found[name] == count for name, count in expected.items())
            (name,) = (name for name in found if name.endswith("fork"))
            os._exit(0 if is_there and found[name] == 2 else 1)
        except BaseException:
            traceback.print_exc()
            os._exit(2)

    with opscope.profile(with_asyncio=True) as prof:
        assert asyncio.run(fork()) == 0
    assert {name.rpartition(".")[2] for name in runs_by_name(prof.trace)} >= {"fork"}


def test_an_interrupt_among_many_tasks():
    async def interrupt():
        await asyncio.sleep(0)
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0)

    async def main():
        await asyncio.gather(*(work(2, 100) for _ in range(20)), interrupt())

    # As a shell leaves it to what it starts in the background, it would be passed over.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with opscope.profile(with_asyncio=True) as prof, pytest.raises(KeyboardInterrupt):
            asyncio.run(main())
    finally:
        signal.signal(signal.SIGINT, before)
    runs = [run for found in runs_by_name(prof.trace).values() for run in found]
    assert not any(prof.trace.events["unfinished"][run.row] for run in runs)
    assert all(node.kind is RUN for node in prof.trace.tree().roots)
    assert 20 <= operators_in_runs(prof.trace)["work"] <= 20 * 100
