"""Which calls of which thread a recording holds, however threads and recording overlap in time."""

import os
import threading

import numpy as np
import pytest
from tests.programs.working_threads import Life, crew_of

import opscope
from opscope.columns.schema import EventKind
from opscope.timeline.tree.node import Tree
from opscope.torch_api.profile_recording import ProfileRecording
from opscope.torch_api.settings import ProfileSettings
from support import tree_text
from support.recorded import without_collections

STAYS, ENDS, BEGINS, PASSES = Life

CREW = 3 * [STAYS] + 2 * [ENDS, BEGINS, PASSES]
FUNCTIONS = {"run", "work", "waits_to_begin", "runs_meanwhile", "waits_to_leave"}
OPERATORS = {"aten::rand", "aten::linear", "aten::relu"}
FORWARD = (
    "forward(aten::rand nn.Module: Sequential(nn.Module: Linear(aten::linear) "
    "nn.Module: ReLU(aten::relu)))"
)
WHOLE = f"work(waits_to_begin runs_meanwhile({FORWARD}) waits_to_leave)"
PYTHON = (EventKind.PYTHON_CALL, EventKind.C_CALL)
work_or_watch = pytest.mark.parametrize("works_here", [True, False], ids=["works", "watches"])


def record(crew, works_here, **options):
    """Record what the crew does; every thread stands where it should at both ends."""
    crew.start(STAYS, ENDS)
    with without_collections(), opscope.profile(**options) as prof:
        crew.start(BEGINS, PASSES)
        crew.run(works_here)
        crew.dismiss(ENDS, PASSES)
    return prof.trace


def name_of(node):
    """Functions of the program without file and line, modules without number; else ""."""
    if node.name.startswith("nn.Module: "):
        return node.name.rpartition("_")[0]
    if "working_threads.py(" in node.name:
        function = node.name.rpartition(": ")[2]
        return function if function in FUNCTIONS else ""
    return node.name if node.name == "forward" or node.name in OPERATORS else ""


def outline(nodes):
    return tree_text.outline(nodes, name_of)


def roots_of(trace, system_thread_id):
    return [root for root in Tree(trace).roots if root.system_thread_id == system_thread_id]


def everything(nodes):
    for node in nodes:
        yield node
        yield from everything(node.children)


def find(nodes, name):
    (found,) = [node for node in everything(nodes) if name_of(node) == name]
    return found


def system_threads(trace, kinds):
    """Kernel ids of the threads that have events of these kinds."""
    events = trace.events
    rows = set(events["thread"][np.isin(events["kind"], kinds)].tolist())
    return {int(trace.table("threads")["system_thread_id"][row]) for row in rows}


def check_whole(trace):
    """Every event inside its parent, of the same thread; nothing lost."""
    events, end_ns = trace.events, trace.end_ns
    inside = events["parent"] >= 0
    parent = events["parent"][inside]
    assert (events["thread"][inside] == events["thread"][parent]).all()
    assert (events["start_ns"][inside] >= events["start_ns"][parent]).all()
    assert (end_ns[inside] <= end_ns[parent]).all()
    assert trace.ledger["events"]["ends without a start"] == 0
    counts = [count for source in trace.ledger.values() for count in source.items()]
    assert [count for count in counts if "dropped" in count[0] and count[1] > 0] == []


def need_a_steady_clock(trace):
    """Where the machine's clock stood or jumped, times end with the window: the ledger says it."""
    if "clock" in trace.ledger:
        pytest.skip(f"the machine's clock: {trace.ledger['clock']}")


@work_or_watch
def test_every_thread_has_its_own_calls_once_and_they_begin_and_end_with_the_recording_or_in_it(
    works_here,
):
    others = {int(task) for task in os.listdir("/proc/self/task")} - {threading.get_native_id()}
    with crew_of(CREW) as crew:
        trace = record(crew, works_here, with_stack=True)

    check_whole(trace)
    # THEN nobody but the crew and this thread called anything, or torch
    ours = {worker.native_id for worker in crew.workers} | {threading.get_native_id()}
    assert len(ours) == len(CREW) + 1
    assert system_threads(trace, PYTHON) - others == ours
    working = ours if works_here else ours - {threading.get_native_id()}
    assert system_threads(trace, [EventKind.OPERATOR]) == working

    # AND each did it all once, functions from before the recording included
    for worker in crew.workers:
        assert outline(roots_of(trace, worker.native_id)) == f"run({WHOLE})"
    here = outline(roots_of(trace, threading.get_native_id()))
    assert here == (f"run({WHOLE})" if works_here else "run")
    for other in others:
        assert outline(roots_of(trace, other)) == ""

    # AND every model has a number of its own
    for module in ("Sequential", "Linear", "ReLU"):
        found = {n.name for n in Tree(trace).depth_first() if name_of(n).endswith(module)}
        assert found == {f"nn.Module: {module}_{number}" for number in range(len(working))}

    need_a_steady_clock(trace)
    start_ns, end_ns = trace.metadata["start_ns"], trace.metadata["end_ns"]
    for worker in crew.workers:
        roots = roots_of(trace, worker.native_id)
        # THEN what was running at the start begins there, all else later
        calls = [find(roots, name) for name in ("run", "work", "waits_to_begin")]
        for call in calls:
            assert (call.start_ns > start_ns) == worker.life.begins
        for name in ("runs_meanwhile", "forward", "nn.Module: Linear", "waits_to_leave"):
            assert find(roots, name).start_ns >= find(roots, "waits_to_begin").end_ns

        # AND what was running at the end is unfinished and ends there, all else before
        stuck = {"run", "work", "waits_to_leave"} if not worker.life.ends else set()
        assert {name_of(n) for n in everything(roots) if n.unfinished} - {""} == stuck
        for node in everything(roots):
            assert node.end_ns == end_ns if node.unfinished else node.end_ns < end_ns, (
                name_of(node),
                node.end_ns - end_ns,
                trace.ledger,
            )
        if worker.life.ends:
            assert not any(node.unfinished for node in everything(roots))
        else:
            outside = set(everything(roots)) - set(everything([find(roots, "waits_to_leave")]))
            line = [node for node in outside if node.unfinished]
            # One inside the other: what the interpreter calls a thread's first functions varies.
            assert all(sum(c.unfinished for c in node.children) == 1 for node in line)


def test_threads_that_begin_after_detail_went_on_again_call_their_first_functions_once():
    detailed = ProfileRecording()
    detailed.detail_with(ProfileSettings.of({"with_stack": True}))
    detailed.start()
    for on in (False, True):
        detailed.record_detail(on, 0)
    detailed.stop()
    with crew_of([BEGINS, PASSES]) as crew:
        trace = record(crew, False, with_stack=True)
    for worker in crew.workers:
        calls = list(everything(roots_of(trace, worker.native_id)))
        for name in ("_bootstrap", "_bootstrap_inner", "run", "work"):
            (call,) = [node for node in calls if node.name.endswith(f": {name}")]
            assert call.unfinished != worker.life.ends


@work_or_watch
def test_with_modules_alone_every_thread_has_its_modules(works_here):
    with crew_of(CREW) as crew:
        trace = record(crew, works_here, with_modules=True)

    check_whole(trace)
    assert system_threads(trace, PYTHON) == set()
    working = {worker.native_id for worker in crew.workers}
    if works_here:
        working.add(threading.get_native_id())
    assert system_threads(trace, [EventKind.MODULE_CALL]) == working
    for thread in working:
        roots = roots_of(trace, thread)
        assert outline(roots) == FORWARD
        assert not any(node.unfinished for node in everything(roots))


def test_the_next_recording_finds_threads_where_the_last_one_left_them():
    with crew_of(CREW) as crew:
        record(crew, True, with_stack=True)
        # WHEN recording begins again while the others wait, and all but some of them end
        with opscope.profile(with_stack=True, record_shapes=True) as prof:
            crew.dismiss(BEGINS)

    check_whole(prof.trace)
    need_a_steady_clock(prof.trace)
    start_ns, end_ns = prof.trace.metadata["start_ns"], prof.trace.metadata["end_ns"]
    for worker in crew.workers:
        roots = roots_of(prof.trace, worker.native_id)
        # THEN they wait there still, in the same functions, and those that ended are gone
        assert outline(roots) == ("" if worker.life.ends else "run(work(waits_to_leave))")
        for name in () if worker.life.ends else ("run", "work", "waits_to_leave"):
            call = find(roots, name)
            assert call.start_ns == start_ns
            assert call.unfinished == (worker.life is STAYS)
            assert (call.end_ns == end_ns) == call.unfinished
