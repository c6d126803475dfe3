"""``opscope diff --run``: two scripts, recorded in turns, with a decision."""

import pytest

pytest.importorskip("torch", reason="records programs")

from opscope.readers import version_comparison
from support.processes import opscope_here

PROGRAM = """
import sys, torch
torch.manual_seed(0)
network = torch.nn.Linear(32, 32)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    loss = network(torch.ones(4, 32)).square().mean()
    for _ in range({again}):
        torch.mm(network.weight, network.weight)
    loss.backward()
    optimizer.step()
print("done")
"""


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.py").write_text(PROGRAM.format(again=1))
    (tmp_path / "new.py").write_text(PROGRAM.format(again=5))
    (tmp_path / "wrong.py").write_text("x = = 1")
    return tmp_path


def test_two_scripts_are_recorded_and_compared(scripts, monkeypatch):
    """In one round, which takes less; tests/unit/readers has the turns of several."""
    monkeypatch.setattr(version_comparison, "LEAST", 1)
    done = opscope_here("diff", "--run", 1, "--gate", "count==", "old.py", "new.py", "--", "14")
    assert done.returncode == 3 and "reject the new version" in done.stderr, done.stderr
    assert "same output, exit code 0" in done.stderr and "aten::mm" in done.stdout
    assert len(list((scripts / "opscope-rounds").glob("*.opscope"))) == 2
    # What only steps in detail know divides no place: 1 call and 5 in each step.
    calls = done.stdout.partition("Calls a step\n")[2].splitlines()
    row = next(line for line in calls if line.startswith("aten::mm"))
    assert row.split()[-3:] == ["1", "5", "+4"], done.stdout


def test_a_program_that_cannot_be_recorded_is_named(scripts):
    done = opscope_here("diff", "--run", 3, "wrong.py", "old.py", "--", "9")
    assert done.returncode == 2 and "wrong.py was not recorded" in done.stderr
    done = opscope_here("diff", "--run", 3, "old.py")
    assert done.returncode == 2 and "two scripts" in done.stderr
