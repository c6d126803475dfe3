"""A table of a model's layers, by hooks, before and after training it."""

import torch
from torchinfo import summary

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3),
    torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool2d(1),
    torch.nn.Flatten(),
    torch.nn.Linear(8, 2),
)
print(
    summary(model, (2, 3, 16, 16), verbose=0, col_names=("input_size", "num_params", "mult_adds"))
)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(4):
    loss = model(torch.randn(2, 3, 16, 16)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
print(summary(model, (1, 3, 8, 8), verbose=0, depth=1))
