"""Programs with one fault each in how they use networks, as in ``advised_programs``."""

from __future__ import annotations

import torch

DATA = torch.rand(512, 256)


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(256, 256), torch.nn.Linear(256, 256)

    def forward(self, x):
        return x + self.second(torch.relu(self.first(x)))


class Tuned(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = torch.nn.Sequential(Residual(), Residual()), Residual()

    def forward(self, x):
        return self.head(self.backbone(x)).mean()  # frozen


def head_tuned(model=None):
    """The optimizer has the head alone."""
    model = Tuned() if model is None else model
    optimizer = torch.optim.SGD(model.head.parameters(), 0.1)
    for _ in range(12):
        optimizer.zero_grad()
        model(DATA).backward()
        optimizer.step()


def head_of_a_frozen_network_tuned():
    model = Tuned()
    model.backbone.requires_grad_(False)
    head_tuned(model)


def layers_of_each_request():
    for _ in range(12):
        layer = torch.nn.Linear(256, 256)  # of each request
        layer(DATA[:4])


def layers_of_all_requests():
    layers = [torch.nn.Linear(256, 256) for _ in range(3)]
    for i in range(400):
        layers[i % 3](DATA)
