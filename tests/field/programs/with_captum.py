"""Attributions by several methods, which put hooks on a model."""

import numpy
import torch
from captum.attr import (
    DeepLift,
    GradientShap,
    GuidedBackprop,
    IntegratedGradients,
    LayerConductance,
    Occlusion,
)

torch.manual_seed(0)
numpy.random.seed(0)  # which draws the baselines of GradientShap
model = torch.nn.Sequential(
    *(torch.nn.Linear(6, 24), torch.nn.ReLU(), torch.nn.Linear(24, 3), torch.nn.Softmax(1))
).eval()
inputs = torch.randn(16, 6)
for method in (IntegratedGradients, DeepLift, GradientShap, GuidedBackprop):
    more = {"baselines": torch.zeros(4, 6)} if method is GradientShap else {}
    print(method.__name__, method(model).attribute(inputs, target=1, **more).sum().item())
print(LayerConductance(model, model[0]).attribute(inputs, target=2).sum().item())
print(Occlusion(model).attribute(inputs, target=0, sliding_window_shapes=(2,)).sum().item())
