"""Modules are called what the program calls them: as named_modules() of its network has them."""

from __future__ import annotations

import functools
import gc
import weakref

import pytest
import torch
from torch import nn

import opscope
from opscope.analysis.module_times import module_times
from opscope.recording.facts import module_paths
from opscope.timeline.module_attribution import attribute_to_modules
from opscope.timeline.tree.frame_text import event_texts, module_names, own_texts


class Net(nn.Module):
    """Layers in a list, one that is called twice under two names, one that is made when called."""

    def __init__(self):
        super().__init__()
        self.first = self.again = nn.Linear(4, 4)
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.ReLU())])

    def forward(self, x):
        if len(self.layers) == 1:
            self.layers.append(nn.Linear(4, 4))
        for layer in self.layers:
            x = layer(x)
        return nn.Tanh()(self.again(self.first(x)))


def recorded(run, **options):
    with opscope.profile(**(options or {"with_modules": True})) as prof:
        run()
    return prof.trace


def paths(trace):
    return {name.numbered.rpartition("_")[0]: name.path for name in module_names(trace).values()}


@pytest.mark.parametrize("option", ["with_modules", "with_functions"])
def test_paths_are_those_of_named_modules(option):
    network = Net()
    trace = recorded(lambda: network(torch.rand(2, 4)), **{option: True})
    found = {name.path for name in module_names(trace).values()} - {""}
    called = {"first", "layers.0", "layers.0.0", "layers.0.1", "layers.1"}
    assert found == called
    assert called < dict(network.named_modules()).keys()
    assert paths(trace)["Net"] == ""  # the outermost
    assert paths(trace)["Tanh"] == ""  # in no network


def test_of_two_networks_each_has_its_name_first():
    one, other = Net(), Net()
    trace = recorded(lambda: (one(torch.rand(2, 4)), other(torch.rand(2, 4))))
    roots = [name for name in module_names(trace) if name.startswith("Net_")]
    found = {name.path for name in module_names(trace).values()} - {""}
    assert len(roots) == 2
    assert {f"{root}.layers.0.1" for root in roots} < found


def test_wrappers_are_no_part_of_a_path():
    wrapped = nn.DataParallel(nn.Sequential(nn.Linear(4, 4)))
    trace = recorded(lambda: wrapped(torch.rand(2, 4)))
    assert paths(trace) == {"DataParallel": "", "Sequential": "", "Linear": "0"}


def test_own_views_and_torchs_call_them_differently():
    network = Net()
    called_first = network.layers[0]
    trace = recorded(lambda: (called_first(torch.rand(2, 4)), network(torch.rand(2, 4))))
    assert any(text.startswith("nn.Module: Linear_") for text in event_texts(trace)[1])
    own = own_texts(trace)[1]
    assert "layers.0.1 (ReLU)" in own and not any(text.startswith("nn.Module") for text in own)
    times = module_times(trace)
    calls = dict(zip(map(".".join, times.paths), times.calls.tolist(), strict=True))
    assert calls["first"] == 2 and calls["layers.1"] == 1
    attributed = attribute_to_modules(trace)
    assert "layers.0.1 (ReLU)" in {attributed.name(event) for event in range(len(trace.events))}


def exchange(network):
    network.body[0] = nn.Linear(4, 4)


def rename(network):
    network.spine = network.body
    del network.body


def empty_and_fill(network):
    children = list(network.body)
    network.body = nn.Sequential(*children)


@pytest.mark.parametrize("change", [exchange, rename, empty_and_fill])
def test_paths_are_those_at_the_end(change):
    network = nn.ModuleDict({"body": nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))})

    def run():
        network.body(torch.rand(2, 4))
        change(network)
        for inner in network.children():
            inner(torch.rand(2, 4))

    network.forward = lambda: run()
    trace = recorded(network)
    inside = set(map(id, network.modules()))
    path_of = {
        int(address): trace.names[name] if name >= 0 else ""
        for address, name in zip(
            trace.table("modules")["address"], trace.table("modules")["path"], strict=True
        )
        if int(address) in inside
    }
    expected = {id(module): path for path, module in network.named_modules()}
    assert path_of.items() <= expected.items()
    assert len(path_of) == 4


def test_a_network_that_stays_as_it_is_is_not_gone_through_again(monkeypatch):
    network, gone_through = Net(), []
    network(torch.rand(2, 4))
    find = module_paths._find_places
    monkeypatch.setattr(
        module_paths, "_find_places", lambda root: (gone_through.append(root), find(root))
    )
    recorded(lambda: (network(torch.rand(2, 4)), network(torch.rand(2, 4))))
    assert gone_through.count(network) == 1
    network.more = nn.Linear(4, 4)
    recorded(lambda: network(torch.rand(2, 4)))
    assert gone_through.count(network) == 2


def test_nothing_of_the_program_runs_or_is_kept():
    class Odd(nn.Module):
        def __getattr__(self, name):
            asked.append(name)
            return super().__getattr__(name)

        def forward(self, x):
            return x

    asked = []
    network = nn.Sequential(Odd())
    recorded(functools.partial(network, torch.rand(2)))
    assert "_modules" not in asked
    gone = weakref.ref(network)
    del network
    gc.collect()
    assert gone() is None
