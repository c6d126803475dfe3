"""An exception at any instruction of what the drop-in does, and of execution traces."""

import gc
import json

import pytest
import torch
from tests.support.interruptions import places, what_is_on
from torch._C import _autograd
from torch.autograd import profiler as torch_profiler
from torch.profiler.profiler import _KinetoProfile

import opscope
from opscope import drop_in


@pytest.fixture(autouse=True, scope="module")
def a_first_recording():
    with drop_in.install(), torch.profiler.profile() as prof:
        torch.ones(1)
    prof.key_averages()
    gc.collect()
    gc.freeze()  # else what is collected below is searched for in all of torch


def what_is_ours():
    """All that is on but a flag of torch's, which torch may be interrupted after setting."""
    found = what_is_on()
    del found["announced"]
    return found


def what_is_replaced():
    return [
        *vars(torch_profiler).values(),
        *vars(_autograd).values(),
        *vars(torch_profiler.profile).values(),
        *vars(_KinetoProfile).values(),
    ]


def same(before):
    return all(a is b for a, b in zip(what_is_replaced(), before, strict=True))


def test_installed_or_not():
    before = what_is_replaced()
    for place in places(drop_in.install, step=1_400_001):
        assert same(before) != drop_in.is_installed(), place
        drop_in.uninstall()
        assert same(before), place
    assert drop_in.is_installed()
    for place in places(drop_in.uninstall, step=1_400_001):
        assert same(before) != drop_in.is_installed(), place
        drop_in.install()
    assert same(before)


def counted_by_torch():
    with torch.profiler.profile() as prof:
        for _ in range(3):
            torch.ones(1)
    return sum(event.name == "aten::ones" for event in prof.events())


@pytest.mark.parametrize("options", [{}, {"with_stack": True, "profile_memory": True}])
def test_a_profile_of_torchs_that_was_interrupted_and_forgotten_is_off(options):
    with drop_in.install():
        before = what_is_ours()
        kept = []

        def start():
            kept[:] = [torch.profiler.profile(**options)]
            kept[0].start()

        for place in places(start, step=29):
            kept.clear()
            gc.collect()
            assert what_is_ours() == before, place
        kept.pop().stop()
        assert counted_by_torch() == 3


def test_stopping_a_profile_of_torchs_after_an_interruption():
    with drop_in.install():
        before = what_is_ours()
        kept = []

        def start():
            kept[:] = [torch.profiler.profile()]
            kept[0].start()
            torch.ones(1)

        start()
        for place in places(lambda: kept[0].stop(), step=29):
            assert counted_by_torch() == 3 if not what_is_ours()["wanted"] else True, place
            kept.clear()
            gc.collect()
            assert what_is_ours() == before, place
            start()
        kept.clear()
        gc.collect()
        assert what_is_ours() == before


def test_an_interrupted_observer_can_be_stopped_and_writes_its_file(tmp_path):
    before = what_is_on()
    file = tmp_path / "trace.json"
    observer = opscope.ExecutionTraceObserver().register_callback(file)
    for place in places(observer.start, step=397):
        observer.stop()
        assert what_is_on()["wanted"] == before["wanted"], place
    torch.ones(1)
    for place in places(observer.stop, step=37):
        observer.stop()
        assert what_is_on()["wanted"] == before["wanted"], place
        observer.start()
        torch.ones(1)
    observer.stop()
    assert len(list(places(observer.unregister_callback, step=2001))) > 3
    assert what_is_on() == before
    nodes = json.loads(file.read_text())["nodes"]
    assert sum(node["name"] == "aten::ones" for node in nodes) > 1
    assert len({node["id"] for node in nodes}) == len(nodes)
