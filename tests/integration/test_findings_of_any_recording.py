"""What was recorded besides changes no finding: a loop is found at its line in every recording that
knows lines, and its fix saves about the same."""

from __future__ import annotations

import itertools
import runpy

import pytest

import opscope
from opscope.findings.finding import Findings
from support.torch_processes import run_torch

pytest.importorskip("torch")

SERVICE = """\
import torch

torch.set_num_threads(1)


class Service:
    def __init__(self):
        self.model = torch.nn.Sequential(
            torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 16)
        )
        self.rows = torch.rand(32, 64)

    def explain(self, row):
        scores = []
        for i in range(32):
            without = self.rows[row].clone()
            without[i] = 0
            scores.append(self.model(without).sum())
        return torch.stack(scores)

    def predict(self, batch):
        return self.model(batch).softmax(-1)


service = Service()
for request in range(20):
    for _ in range(5):
        service.predict(torch.rand(512, 64))
    service.explain(request)
"""
IN_THE_LOOP = {16, 17, 18}
COMMANDS = ("", "--own-stack", "--own-stack --shapes --memory", "--why")
CALLS = ("with_stack", "with_functions", "with_own_functions")
BESIDES = ("record_shapes", "profile_memory", "with_modules")


def saved_share(findings: Findings) -> float:
    """Of the loop, which has to be there, at one of its lines."""
    found = {finding.id: finding for finding in findings}
    assert "for-loop-indexing" in found, findings
    finding = found["for-loop-indexing"]
    assert finding.places[0].file.endswith("service.py"), finding
    assert finding.places[0].line in IN_THE_LOOP, finding
    assert finding.saved_share is not None
    return finding.saved_share


def test_what_is_recorded_besides_lines_changes_no_finding(tmp_path):
    program = tmp_path / "service.py"
    program.write_text(SERVICE)
    saved = {}
    for calls, besides in itertools.product(CALLS, (False, True)):
        options = {calls: True, **dict.fromkeys(BESIDES, besides)}
        with opscope.profile(**options) as profile:
            runpy.run_path(str(program))
        saved[str(options)] = saved_share(profile.trace.findings())
    for options in COMMANDS:
        command = ["run", *options.split(), "--output", "trace", "service.py"]
        done = run_torch("-m", "opscope", *command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        saved[options] = saved_share(opscope.load(tmp_path / "trace").findings())
    assert max(saved.values()) <= 2 * min(saved.values()), saved


CHAIN = """\
import torch

torch.set_num_threads(1)
weight = torch.nn.Parameter(torch.rand(64))
optimizer = torch.optim.SGD([weight], lr=0.01)
for step in range(200):
    x = weight
    for _ in range(10):
        x = (x * 1.01).sin()
    loss = x.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("calls", CALLS)
def test_a_backward_pass_is_no_time_outside_torch(tmp_path, calls):
    program = tmp_path / "chain.py"
    program.write_text(CHAIN)
    with opscope.profile(**{calls: True}) as profile:
        runpy.run_path(str(program))
    found = {finding.id: finding for finding in profile.trace.findings()}
    outside = found["time-outside-torch"].explanation if "time-outside-torch" in found else ""
    assert "backward" not in outside
