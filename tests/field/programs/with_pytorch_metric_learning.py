"""Losses with miners, and the accuracy of neighbours."""

import torch
from pytorch_metric_learning import distances, losses, miners, reducers

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
inputs, labels = torch.randn(48, 16), torch.arange(48) % 4
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for loss_of in (
    losses.TripletMarginLoss(distance=distances.CosineSimilarity(), reducer=reducers.MeanReducer()),
    losses.NTXentLoss(0.1),
    losses.SupConLoss(),
    losses.ProxyNCALoss(4, 8),
):
    miner = miners.MultiSimilarityMiner()
    for _ in range(4):
        found = model(inputs)
        loss = loss_of(found, labels, miner(found, labels))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item())
