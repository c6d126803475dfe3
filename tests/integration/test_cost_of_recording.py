"""What recording one operator, argument, allocation or call costs: measured by known calls."""

import os
import threading

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import opscope
from opscope import _native
from opscope.columns.codes import EventKind
from opscope.columns.ledger import KIND_COST, CostKind
from opscope.recording import cost as measuring
from opscope.recording.sources import RecordingOptions
from opscope.timeline.tree.event_tree import event_tree
from support.recorded import record

ALL = {"record_shapes": True, "profile_memory": True, "with_stack": True}
EVERYTHING = RecordingOptions(shapes=True, memory=True, stack=True)


@pytest.fixture
def not_measured_yet():
    kept = dict(measuring._known)
    measuring._known.clear()
    yield
    measuring._known.clear()
    measuring._known.update(kept)


def costs(trace):
    rows = trace.ledger.get("recorder", {})
    return {
        kind: rows[KIND_COST + kind.value] for kind in CostKind if KIND_COST + kind.value in rows
    }


@pytest.mark.parametrize("number", range(len(measuring.timed_calls(torch))))
def test_a_timed_call_has_its_declared_parts(number):
    """In so many turns that the functions around them do not count."""
    call, turns = measuring.timed_calls(torch)[number], 500
    call.repeat(range(turns))
    trace = record(lambda: call.repeat(range(turns)), **ALL)
    kind = trace.events["kind"]
    operator = kind == EventKind.OPERATOR
    parent = event_tree(trace).parent
    inner = operator & (parent >= 0) & operator[parent]
    found = [
        (operator & ~inner).sum(), inner.sum(), len(trace.table("tensors")),
        len(trace.table("scalars")), len(trace.table("allocations")),
        (kind == EventKind.PYTHON_CALL).sum(), (kind == EventKind.C_CALL).sum(),
    ]  # fmt: skip
    assert [int(count) // turns for count in found] == list(call.has)


def test_what_is_recorded_costs_something_and_nothing_else_does(not_measured_yet):
    with_all = costs(record(lambda: torch.ones(1), **ALL))
    assert list(with_all) == list(CostKind)
    assert with_all[CostKind.OPERATOR] > 0
    assert with_all[CostKind.PYTHON_CALL] > 0
    alone = costs(record(lambda: torch.ones(1)))
    assert alone[CostKind.TENSOR] == alone[CostKind.ALLOCATION] == alone[CostKind.C_CALL] == 0
    assert alone[CostKind.OPERATOR] > 0
    # It is measured once for the same options.
    assert costs(record(lambda: torch.zeros(2), **ALL)) == with_all != alone


def test_threads_that_measure_at_once_get_the_same(not_measured_yet):
    seen = []
    threads = [
        threading.Thread(target=lambda: seen.append(measuring.cost_by_kind(EVERYTHING)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 4 and all(measured == seen[0] for measured in seen)


def test_it_is_put_off_while_something_else_is_recorded(not_measured_yet):
    with opscope.profile(**ALL) as outer:
        assert costs(record(lambda: torch.ones(1), **ALL)) == {}
    assert costs(outer.trace)
    assert not any("calibration" in text for text in outer.trace.names)


def test_what_the_program_set_for_its_thread_sees_nothing_of_it(not_measured_yet):
    seen = []

    class Seeing(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    with Seeing(), torch.device("meta"), torch.inference_mode():
        measured = measuring.cost_by_kind(EVERYTHING)
    assert measured and not seen


def test_measuring_leaves_nothing_behind(not_measured_yet):
    windows = _native.statistics()["windows"]
    measuring.cost_by_kind(EVERYTHING)
    assert _native.statistics()["windows"] == windows
    assert _native.statistics()["wanted"] == 0
    assert not torch.autograd._profiler_enabled()


def test_a_forked_child_measures_for_itself(not_measured_yet):
    child = os.fork()
    if child == 0:
        os._exit(0 if measuring.cost_by_kind(EVERYTHING) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
