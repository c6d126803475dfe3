"""Gradients through steps of an optimizer."""

import higher
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
inner = torch.optim.SGD(model.parameters(), lr=0.1)
outer = torch.optim.Adam(model.parameters(), lr=1e-2)
inputs = torch.randn(16, 4)
for _ in range(4):
    outer.zero_grad()
    with higher.innerloop_ctx(model, inner, copy_initial_weights=False) as (copy, steps):
        for _ in range(3):
            steps.step((copy(inputs) - 1).square().mean())
        loss = (copy(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        loss.backward()
    outer.step()
    print(loss.item())
