"""What a recording keeps of operators' schemas says what torch says."""

import pytest
import torch

import opscope
from opscope.analysis.memory.categories import match_signature
from opscope.columns import overloads
from opscope.columns.overloads import (
    Overload,
    described,
    kept,
    overloads_of,
    registered_overloads,
)
from opscope.export import execution_trace_nodes
from support.processes import run_python

NAMES = sorted({name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()})[::7]


def test_texts_say_everything():
    for name in NAMES:
        overloads = overloads_of(name)
        assert tuple(Overload.from_text(one.as_text()) for one in overloads) == overloads


def test_what_was_kept_answers_as_torch_does():
    operators = kept({"overloads": described(["aten::add_", "aten::index", "my name"])})
    assert list(operators) == ["aten::add_", "aten::index"]
    for name, kinds in (("aten::add_", "TTi"), ("aten::index", "TL"), ("my name", "T")):
        assert match_signature(name, kinds, operators) == match_signature(name, kinds)


def test_a_recording_of_memory_is_explained_without_torch(tmp_path):
    network = torch.nn.Linear(4, 4)
    with opscope.profile(record_shapes=True, profile_memory=True, with_modules=True) as prof:
        network(torch.ones(2, 4)).sum().backward()
    expected = [(group.name, group.size_bytes) for group in prof.trace.peak_memory().by_category]
    prof.trace.save(tmp_path / "trace")
    program = f"""
import sys
sys.modules["torch"] = None
import opscope
peak = opscope.load({str(tmp_path / "trace")!r}).peak_memory()
print([(group.name, group.size_bytes) for group in peak.by_category])
"""
    done = run_python("-c", program)
    assert done.stdout.strip() == str(expected), done.stderr


@pytest.mark.parametrize("name", ["step", "my::label", "autograd::engine::run: Mm", "aten::mm.out"])
def test_what_is_no_operator_has_none(name):
    assert registered_overloads(name) == ()


def test_a_recording_asks_nothing_behind_torchscripts_lock(monkeypatch, tmp_path):
    def refuse(*arguments):
        pytest.fail("a forked child may find this registry locked for ever")

    for name in ("_jit_get_schemas_for_operator", "_jit_get_all_schemas", "_get_schema"):
        monkeypatch.setattr(torch._C, name, refuse)
    overloads._overloads_by_name.clear()
    execution_trace_nodes._registered_text.cache_clear()
    overloads._registered_names.clear()

    with opscope.profile(record_shapes=True, profile_memory=True) as prof:
        torch.ones(3).add_(1)
    prof.export_chrome_trace(str(tmp_path / "trace.json"))

    assert prof.trace.peak_memory().by_category
    assert "aten::copy_(" in str(execution_trace_nodes.schemas_of_events(prof.trace)[1])
