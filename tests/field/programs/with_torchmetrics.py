"""Metrics of batches, collected, cloned and saved."""

import pickle

import torch
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassAUROC, MulticlassF1Score
from torchmetrics.image import StructuralSimilarityIndexMeasure
from torchmetrics.regression import MeanSquaredError, PearsonCorrCoef

torch.manual_seed(0)
classes = MetricCollection([MulticlassAccuracy(5), MulticlassF1Score(5), MulticlassAUROC(5)])
values = MetricCollection([MeanSquaredError(), PearsonCorrCoef()])
similar = StructuralSimilarityIndexMeasure(data_range=1.0)
for _ in range(40):
    classes.update(torch.randn(64, 5).softmax(1), torch.randint(0, 5, (64,)))
    values.update(torch.randn(64), torch.randn(64))
    similar.update(torch.rand(2, 3, 32, 32), torch.rand(2, 3, 32, 32))
again = pickle.loads(pickle.dumps(classes.clone(prefix="again_")))
for metric in (classes, values, similar, again):
    print(metric.compute())
