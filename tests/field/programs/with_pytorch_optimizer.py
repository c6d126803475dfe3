"""Steps of optimizers, some with closures and second passes."""

import torch
from pytorch_optimizer import load_optimizer

for name in ("adabelief", "lion", "lamb", "adafactor", "shampoo", "ranger21", "sophiah", "prodigy"):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    more = {"num_iterations": 10} if name == "ranger21" else {}
    optimizer = load_optimizer(name)(model.parameters(), lr=1e-2, **more)
    inputs = torch.randn(32, 8)
    for _ in range(6):
        optimizer.zero_grad()
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        loss.backward(create_graph=name == "sophiah")
        optimizer.step()
    print(name, loss.item())
