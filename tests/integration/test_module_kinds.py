"""Calls of every kind of nn.Module, against the calls that torch.profiler records."""

import contextlib
import warnings

import pytest
import torch
from torch import nn

import opscope
from opscope.timeline.tree.node import NodeKind

INPUT = torch.ones(3, 2)


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Fails(nn.Module):
    def forward(self, x):
        raise ValueError("as it should")


def used_twice():
    shared = nn.ReLU()
    return nn.Sequential(nn.Linear(2, 2), shared, nn.Linear(2, 2), shared)


def hooked():
    module = nn.Linear(2, 2)
    module.register_forward_hook(lambda *_: None)
    module.register_full_backward_hook(lambda *_: None)
    return module


def compiled():
    return torch.compile(Stack(), backend="eager")


KINDS = {
    "failing": lambda: nn.Sequential(nn.Linear(2, 2), Fails()),
    "used twice": used_twice,
    "hooked": hooked,
    "traced": lambda: torch.jit.trace(Stack(), INPUT),
    "scripted": lambda: torch.jit.script(Stack()),
    "compiled": compiled,
}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
    torch._dynamo.reset()


def use(module):
    with contextlib.suppress(ValueError):
        module(INPUT).sum().backward()


def our_calls(module, **options):
    with opscope.profile(with_modules=True, **options) as prof:
        use(module)
    nodes = prof.trace.tree().depth_first()
    return [node.name for node in nodes if node.kind is NodeKind.MODULE_CALL]


def torchs_calls(module):
    config = torch._C._profiler._ExperimentalConfig(verbose=True)
    with torch.profiler.profile(with_stack=True, experimental_config=config) as prof:
        use(module)
    # Their tree, since their list of events has no calls before torch 2.13.
    found = list(prof.profiler.kineto_results.experimental_event_tree())
    for node in found:
        found.extend(node.children)
    found.sort(key=lambda node: (node.start_time_ns, -node.end_time_ns))
    return [node.name for node in found if node.name.startswith("nn.Module: ")]


@pytest.mark.parametrize("kind", KINDS)
def test_calls_are_torchs(kind):
    module = KINDS[kind]()
    use(module)  # what is compiled at a first call is compiled by now
    expected = torchs_calls(module)

    assert expected
    assert our_calls(module) == our_calls(module, with_stack=True) == expected
