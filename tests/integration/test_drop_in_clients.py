"""Libraries that call torch.profiler themselves: the drop-in gives them what torch gives them."""

import importlib.util
import json
from pathlib import Path

import pytest

from support.torch_processes import run_torch

pytest.importorskip("torch", reason="trains with libraries built on it")

PROGRAM = Path(__file__).parents[1] / "programs" / "profiler_clients.py"


@pytest.fixture
def results(tmp_path):
    """Trains with a library on either profiler: what torch gave it, and what opscope did."""

    def run(client, package):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed (see requirements/clients.txt)")
        done = run_torch(PROGRAM, client, tmp_path, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
        both = json.loads(done.stdout.splitlines()[-1])
        return both["torch"], both["opscope"]

    return run


def test_lightnings_pytorch_profiler(results):
    theirs, ours = results("lightning", "pytorch_lightning")
    assert ours == theirs
    assert (ours["files"], ours["steps"]) == (1, 2)
    assert "aten::linear" in ours["table"]
    steps = [name for name in ours["names"] if name.endswith(".optimizer_step")]
    assert steps, "what Lightning itself names is in the trace"


def test_transformers_trainer_with_a_callback_that_steps_the_profiler(results):
    theirs, ours = results("transformers", "transformers")
    assert ours == theirs
    assert (ours["files"], ours["steps"]) == (1, 2)
    assert ours["names"]["Optimizer.step#AdamW.step"] == 2
    assert "aten::embedding" in ours["table"]


def test_accelerates_profile_kwargs(results):
    theirs, ours = results("accelerate", "accelerate")
    # opscope counts the operations of more operators: aten::add_ here.
    more = set(ours["flops"]) - set(theirs["flops"])
    assert {name: ours["flops"][name] for name in theirs["flops"]} == theirs["flops"]
    assert more == {"aten::add_"} and theirs["flops"]["aten::addmm"] == 3 * 16
    assert {**ours, "flops": theirs["flops"]} == theirs
    assert ours["files"] == 1 and ours["names"]["aten::addmm"] == 3
