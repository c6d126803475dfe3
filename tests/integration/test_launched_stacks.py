"""Python calls of programs that opscope itself runs: the program's are seen, opscope's are not."""

import opscope
from support.torch_processes import run_torch


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
    recorder = ["-m", "opscope", "run", "--stack", "-o", tmp_path / "run.opscope"]
    done = run_torch(*recorder, script)
    assert done.returncode == 0, done.stderr[-3000:]
    trace = opscope.load(tmp_path / "run.opscope")
    frames, names = trace.table("frames"), trace.names
    rows = trace.table("python_calls")["frame"]
    called = {names[frames["file"][row]] for row in rows[rows >= 0]}

    assert any("torch/_dynamo/" in file for file in called)
    assert not any("opscope/launch" in file for file in called)
