"""Python calls of programs that opscope itself runs: the program's are seen, opscope's are not."""

import pytest

import opscope
from support.processes import run_python

PROGRAM = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1

net = Net()

def call_it(x):
    return net(x)

with torch.profiler.profile(with_stack=True) as prof:
    call_it(torch.ones(2))
print([event.name() for event in prof.profiler.kineto_results.events()])
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def run(*arguments):
    done = run_python("-m", *arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_program_under_the_switch_has_stacks(script):
    names = run("opscope.drop_in", script)

    assert "program.py(10): call_it" in names and "nn.Module: Net_0" in names
    assert "opscope/" not in names


def test_a_program_under_opscope_run_has_stacks(script, tmp_path):
    run("opscope", "run", "--stack", "-o", tmp_path / "run.opscope", script)
    trace = opscope.load(tmp_path / "run.opscope")

    nodes = [node.name for node in trace.tree().depth_first()]

    assert any(name.endswith("program.py(10): call_it") for name in nodes)
    assert "nn.Module: Net_0" in nodes
    assert not any("opscope/launch" in name for name in nodes)


def test_what_a_watched_import_runs_is_seen(tmp_path):
    """The first optimizer imports torch._dynamo, whose loader opscope wraps to hear of it."""
    script = tmp_path / "program.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Linear(2, 2)\n"
        "optimizer = torch.optim.AdamW(model.parameters())\n"
        "import torch._dynamo\n"
        "model(torch.ones(1, 2)).sum().backward()\n"
        "optimizer.step()\n"
    )
    run("opscope", "run", "--stack", "-o", tmp_path / "run.opscope", script)
    trace = opscope.load(tmp_path / "run.opscope")
    frames, names = trace.table("frames"), trace.names
    rows = trace.table("python_calls")["frame"]
    called = {names[frames["file"][row]] for row in rows[rows >= 0]}

    assert any("torch/_dynamo/" in file for file in called)
    assert not any("opscope/launch" in file for file in called)
