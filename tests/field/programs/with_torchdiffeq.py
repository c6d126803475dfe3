"""Fit the right side of a differential equation, with and without the adjoint."""

import torch
from torchdiffeq import odeint, odeint_adjoint

torch.manual_seed(0)
times = torch.linspace(0, 5, 20)
start = torch.tensor([[2.0, 0.0]])
matrix = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
with torch.no_grad():
    wanted = odeint(lambda t, y: y @ matrix, start, times, method="dopri5")


class Side(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)
        )

    def forward(self, t, y):
        return self.net(y)


side = Side()
optimizer = torch.optim.Adam(side.parameters(), lr=0.01)
for step in range(12):
    optimizer.zero_grad()
    solve = odeint_adjoint if step % 2 else odeint
    loss = (solve(side, start, times) - wanted).abs().mean()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
