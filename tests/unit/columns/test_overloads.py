"""What a recording keeps of operators' schemas says what torch says."""

import torch

import opscope
from opscope.analysis.memory.categories import match_signature
from opscope.columns.overloads import Overload, described, kept, overloads_of
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
