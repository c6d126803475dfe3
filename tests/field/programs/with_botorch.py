"""One round of Bayesian optimization."""

import torch
from botorch.acquisition import qLogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)
points = torch.rand(12, 2, dtype=torch.double)
values = (1 - (points - 0.5).norm(dim=-1, keepdim=True)).sin()
model = SingleTaskGP(points, values)
fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
found, value = optimize_acqf(
    qLogExpectedImprovement(model, values.max()),
    bounds=torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double),
    q=2,
    num_restarts=3,
    raw_samples=16,
    options={"maxiter": 20},
)
print(found.tolist(), value.item())
