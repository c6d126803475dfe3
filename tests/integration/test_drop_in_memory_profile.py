"""torch.profiler's memory profile under the switch: torch's class, from columns."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

from torch.profiler._memory_profiler import MemoryProfile  # noqa: E402

import opscope.drop_in  # noqa: E402
from opscope.api.trace import Trace  # noqa: E402
from support.memory_programs import PROGRAMS  # noqa: E402

EVERYTHING = {"record_shapes": True, "profile_memory": True, "with_stack": True}


def test_the_methods_of_torchs_profiler_write_the_same_files(tmp_path):
    program = PROGRAMS["sgd_from_the_first_step"]()
    with opscope.drop_in.install(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls these methods deprecated
        with torch.profiler.profile(**EVERYTHING) as prof:
            program()
        prof.export_memory_timeline(str(tmp_path / "torch.json"), device="cpu")
        ours = prof._memory_profile()
        theirs = MemoryProfile(prof.profiler.kineto_results)
        nodes = [len(one._data_flow_graph.flow_nodes) for one in (ours, theirs)]
        trace = prof.profiler.kineto_results.trace
    Trace.of(trace).export("memory-timeline", tmp_path / "opscope.json")

    text = (tmp_path / "torch.json").read_text()
    assert len(text) > 1000
    assert (tmp_path / "opscope.json").read_text() == text
    assert isinstance(ours, MemoryProfile)
    assert nodes[0] == nodes[1] > 5
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ours.nonsense


def test_missing_options_are_named_in_torchs_words():
    with opscope.drop_in.install():
        with torch.profiler.profile(profile_memory=True) as prof:
            torch.ones(1)
        with pytest.raises(ValueError, match="record_shapes=True, with_stack=True required"):
            prof._memory_profile()


def test_a_profile_of_torchs_own_recorder_stays_torchs():
    with torch.profiler.profile(**EVERYTHING) as prof:
        torch.ones(1).add(1)
    with opscope.drop_in.install():
        assert type(prof._memory_profile()) is MemoryProfile
