"""``opscope diff --run``: two scripts, recorded in turns, with a decision."""

import pytest

pytest.importorskip("torch", reason="records programs")

from support.processes import run_opscope

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
def scripts(tmp_path):
    def write(name, again=1):
        (tmp_path / name).write_text(PROGRAM.format(again=again))
        return name

    return tmp_path, write


def test_two_scripts_are_recorded_in_turns(scripts):
    folder, write = scripts
    old, new = write("old.py"), write("new.py", again=5)
    gate = ("--gate", "count==")
    done = run_opscope("diff", "--run", 3, *gate, old, new, "--", "14", cwd=folder)
    assert done.returncode == 3 and "reject the new version" in done.stderr, done.stderr
    assert "same output, exit code 0" in done.stderr and "aten::mm" in done.stdout
    turns = [line for line in done.stderr.splitlines() if "round" in line]
    assert [line.split()[-1] for line in turns] == [old, new, new, old, old, new]
    assert len(list((folder / "opscope-rounds").glob("*.opscope"))) == 6
    # What only steps in detail know divides no place: 1 call and 5 in each step.
    calls = done.stdout.partition("Calls a step\n")[2].splitlines()
    row = next(line for line in calls if line.startswith("aten::mm"))
    assert row.split()[-3:] == ["1", "5", "+4"], done.stdout


def test_a_program_that_cannot_be_recorded_is_named(scripts):
    folder, write = scripts
    (folder / "wrong.py").write_text("x = = 1")
    done = run_opscope("diff", "--run", 3, "wrong.py", write("old.py"), "--", "9", cwd=folder)
    assert done.returncode == 2 and "wrong.py was not recorded" in done.stderr
    done = run_opscope("diff", "--run", 3, "old.py", cwd=folder)
    assert done.returncode == 2 and "two scripts" in done.stderr
