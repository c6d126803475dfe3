"""Recorded programs run again, operator by operator."""

import torch

import opscope
from opscope.replay.replay import replay


@torch.jit.script
def scripted(x: torch.Tensor, n: int) -> torch.Tensor:
    for i in range(n):
        x = x * i + torch.ones(2)
    return x.relu()


def train():
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(2, 1, 6, 6)).square().mean().backward()
        optimizer.step()
    torch.cat([torch.ones(2, 3), torch.ones(1, 3)])


def test_a_training_loop():
    with opscope.profile(record_outputs=True) as profile:
        train()

    result = replay(profile.trace, repeat=3)

    replayed = {call.name: call for call in result.replayed}
    convolution = replayed["aten::conv2d"]
    assert convolution.calls == 2
    assert convolution.input_shapes[:2] == [[2, 1, 6, 6], [2, 1, 3, 3]]
    assert convolution.replayed_ns > 0 and convolution.recorded_ns > 0
    assert {"aten::cat", "aten::convolution_backward", "aten::relu"} <= set(replayed)
    refused = {call.name for call in result.refused}
    assert not refused - {"Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD.zero_grad"}, refused


def test_operators_called_with_their_arguments_on_a_stack():
    scripted(torch.ones(2), 3)
    with opscope.profile(record_shapes=True) as profile:
        scripted(torch.ones(2), 3)

    result = replay(profile.trace, repeat=3)

    assert result.refused == []
    multiplied = [call for call in result.replayed if call.name.startswith("aten::mul")]
    assert sum(call.calls for call in multiplied) == 3
