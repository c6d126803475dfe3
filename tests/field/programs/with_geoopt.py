"""Optimizers on manifolds."""

import geoopt
import torch

torch.manual_seed(0)
for manifold, start in (
    (geoopt.Stiefel(), torch.linalg.qr(torch.randn(6, 3))[0]),
    (geoopt.PoincareBall(), torch.randn(6, 3) * 0.1),
    (geoopt.Sphere(), torch.nn.functional.normalize(torch.randn(6, 3), dim=-1)),
):
    target = manifold.projx(torch.randn(6, 3) * 0.2)
    point = geoopt.ManifoldParameter(start.clone(), manifold=manifold)
    optimizer = geoopt.optim.RiemannianAdam([point], lr=1e-2)
    for _ in range(10):
        optimizer.zero_grad()
        loss = (point - target).square().sum()
        loss.backward()
        optimizer.step()
    print(type(manifold).__name__, loss.item())
