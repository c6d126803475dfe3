"""Module calls heard in changing ways, as other threads' windows begin and end."""

import itertools
import random
import sys
import threading

import numpy as np
import torch

import opscope
from opscope.columns.schema import EventKind
from support.recorded import names


class Gate(torch.nn.Module):
    """Starts or stops another's profile in the middle of a call."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def forward(self, x):
        self.change()
        return x.neg()


class Around(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x).sin()


def _elsewhere(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def _assert_children_are_inside(trace):
    parent, start, end = trace.events["parent"], trace.events["start_ns"], trace.end_ns
    rows = np.flatnonzero((parent >= 0) & (trace.events["kind"] != EventKind.ANNOTATION))
    assert (end[rows] <= end[parent[rows]]).all()
    assert (start[rows] >= start[parent[rows]]).all()


def test_a_module_call_ends_though_the_hooks_that_saw_it_begin_are_gone():
    other = opscope.profile(with_stack=True)
    other.start()
    model = Around(Gate(lambda: _elsewhere(other.stop)))
    with opscope.profile(with_modules=True) as prof:
        model(torch.ones(2))
        torch.ones(3).cos()
    found = names(prof.trace)
    events = prof.trace.events
    calls = np.flatnonzero(events["kind"] == EventKind.MODULE_CALL)
    assert len(calls) == 2 and not events["unfinished"][calls].any()
    assert events["parent"][found.index("aten::cos")] == -1
    assert found[events["parent"][found.index("aten::sin")]] == "nn.Module: Around_0"
    _assert_children_are_inside(prof.trace)


def test_what_runs_in_module_calls_is_inside_of_them_beside_any_recorder():
    stop = threading.Event()
    menu = ({}, {"with_modules": True}, {"with_stack": True})
    model = Around(Around(torch.nn.ReLU()))

    def others(choices):
        while not stop.is_set():
            with opscope.profile(**choices.choice(menu)):
                model(torch.ones(9))

    threads = [threading.Thread(target=others, args=(random.Random(i),)) for i in range(2)]
    for thread in threads:
        thread.start()
    try:
        for options in itertools.islice(itertools.cycle(menu), 12):
            with opscope.profile(**options) as prof:
                for _ in range(5):
                    model(torch.ones(9))
            _assert_children_are_inside(prof.trace)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _optimizer_calls(trace):
    return int((trace.events["kind"] == EventKind.OPTIMIZER_CALL).sum())


def test_a_step_that_was_seen_as_a_call_is_no_second_one_to_a_window_that_opens_before_it_ends():
    optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1)
    modules = opscope.profile(with_modules=True)
    hook = optimizer.register_step_post_hook(lambda *_: modules.start())
    with opscope.profile(with_functions=True) as functions:
        optimizer.step()
        hook.remove()
        modules.stop()
        optimizer.step()
    assert _optimizer_calls(functions.trace) == 2
    assert _optimizer_calls(modules.trace) == 0


class Watched(torch.optim.SGD):
    """Lets another thread do something while opscope looks at its parameters."""

    meanwhile = None

    @property
    def param_groups(self):
        caller = sys._getframe(1).f_globals["__name__"]
        if caller.startswith("opscope.") and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            _elsewhere(meanwhile)
        return self._groups

    @param_groups.setter
    def param_groups(self, groups):
        self._groups = groups


def test_a_step_that_begins_as_another_recording_wants_all_calls_is_there_once():
    optimizer = Watched([torch.ones(2, requires_grad=True)], lr=0.1)
    complete = opscope.profile(with_stack=True)
    optimizer.meanwhile = complete.start
    with opscope.profile(with_functions=True) as functions:
        optimizer.step()
    complete.stop()
    assert optimizer.meanwhile is None
    assert _optimizer_calls(functions.trace) == 1
