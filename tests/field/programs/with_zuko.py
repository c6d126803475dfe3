"""Normalizing flows, fitted and sampled."""

import torch
import zuko

torch.manual_seed(0)
data, context = torch.randn(64, 2) * 0.5 + 1, torch.randn(64, 3)
for make in (zuko.flows.NSF, zuko.flows.MAF, zuko.flows.NICE):
    flow = make(features=2, context=3, transforms=2, hidden_features=(16, 16))
    optimizer = torch.optim.Adam(flow.parameters(), 1e-2)
    for _ in range(5):
        loss = -flow(context).log_prob(data).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item())
    print(flow(context[0]).sample((4,)).sum().item())
