"""A moving average beside a training, copied and stored."""

import io

import torch
from ema_pytorch import EMA

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
average = EMA(model, beta=0.9, update_after_step=2, update_every=2)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
inputs = torch.randn(32, 8)
for _ in range(12):
    loss = (model(inputs) - 1).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    average.update()
print(loss.item(), average(inputs).sum().item())
stored = io.BytesIO()
torch.save(average.state_dict(), stored)
print(len(stored.getvalue()), sorted(average.state_dict())[:3])
