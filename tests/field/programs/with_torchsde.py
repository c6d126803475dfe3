"""A stochastic equation with learned drift, by the adjoint."""

import torch
import torchsde

torch.manual_seed(0)


class Equation(torch.nn.Module):
    """Diagonal noise."""

    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.drift = torch.nn.Linear(3, 3)

    def f(self, time, state):
        return torch.tanh(self.drift(state))

    def g(self, time, state):
        return 0.1 * torch.ones_like(state)


equation = Equation()
start, times = torch.ones(8, 3), torch.linspace(0, 1, 4)
for method in (torchsde.sdeint, torchsde.sdeint_adjoint):
    noise = torchsde.BrownianInterval(
        0.0, 1.0, size=(8, 3), entropy=0, dt=0.05, levy_area_approximation="space-time"
    )
    paths = method(equation, start, times, bm=noise, dt=0.05)
    paths.square().mean().backward()
    print(paths.sum().item(), equation.drift.weight.grad.norm().item())
