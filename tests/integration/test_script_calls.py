"""Where in TorchScript an operator was called: modules and functions, as torch writes them."""

import json

import pytest
import torch
from torch import nn

import opscope
import opscope.drop_in

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


class Scale(nn.Module):
    def double(self, x):
        return x * 2

    def forward(self, x):
        return self.double(x) - 1


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Scale()
        self.second = nn.ReLU()

    def forward(self, x):
        return self.second(self.first(x))


@pytest.fixture(scope="module")
def scripted():
    module = torch.jit.script(Pair())
    for _ in range(3):  # it is specialised to what it sees
        module(torch.ones(2))
    return module


def recorded(scripted, **options):
    with opscope.profile(**options) as prof:
        scripted(torch.ones(2))
        torch.ones(2).neg()
    return prof


def places(trace, column):
    calls = trace.table("script_calls")
    return {
        trace.event_name(event): trace.names[text]
        for event, text in zip(calls["event"], calls[column], strict=True)
        if text >= 0
    }


MODULES = {
    "aten::mul": "TOP(Pair)::forward.first(Scale)::forward.SELF(Scale)::double.",
    "aten::sub": "TOP(Pair)::forward.first(Scale)::forward.",
    "aten::relu": "TOP(Pair)::forward.second(ReLU)::forward.::relu.",
}


def test_operators_name_the_modules_around_them(scripted):
    found = places(recorded(scripted, with_modules=True).trace, "modules")
    assert {name: found.get(name) for name in MODULES} == MODULES
    assert "aten::neg" not in found, "it was not called from TorchScript"
    assert len(recorded(scripted).trace.table("script_calls")) == 0, "neither was asked for"


@pytest.mark.parametrize(
    "options",
    [{"with_modules": True}, {"with_stack": True, "with_modules": True}],
)
def test_chrome_files_say_what_torch_s_say(scripted, options, tmp_path):
    def noted(profile, path):
        with profile(activities=[torch.profiler.ProfilerActivity.CPU], **options) as prof:
            scripted(torch.ones(2))
        prof.export_chrome_trace(str(path))
        spans = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("cat") == "cpu_op"]
        spans.sort(key=lambda e: e["ts"])
        keys = ("Module Hierarchy", "Call stack")
        return [(e["name"], *(e["args"].get(key) for key in keys)) for e in spans]

    ours = noted(opscope.profile, tmp_path / "ours.json")
    assert ours == noted(torch.profiler.profile, tmp_path / "theirs.json")
    with opscope.drop_in.install():
        assert ours == noted(torch.profiler.profile, tmp_path / "switched.json")
    assert ("with_modules" in options) == any(modules for _, modules, _ in ours)
    assert ("with_stack" in options) == any(functions for _, _, functions in ours)
