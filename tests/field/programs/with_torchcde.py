"""A neural controlled equation over an interpolated series."""

import torch
import torchcde

torch.manual_seed(0)


class Field(torch.nn.Module):
    """From the state to a matrix."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4 * 3)

    def forward(self, time, state):
        return self.linear(state).tanh().view(*state.shape, 3)


field = Field()
series = torch.randn(6, 12, 3)
for interpolate, kind in (
    (torchcde.hermite_cubic_coefficients_with_backward_differences, torchcde.CubicSpline),
    (torchcde.linear_interpolation_coeffs, torchcde.LinearInterpolation),
):
    path = kind(interpolate(series))
    states = torchcde.cdeint(
        path, field, torch.zeros(6, 4), path.interval, adjoint=False, method="rk4"
    )
    states[:, -1].square().sum().backward()
    print(states.sum().item(), field.linear.weight.grad.norm().item())
