"""Train a small convolutional network to read handwritten digits.

An ordinary PyTorch program: there is no profiler in it. See where its time goes with

    opscope run examples/train_digits.py

The 1,797 images (8 by 8 pixels) are in the file beside this one, as scikit-learn has them: "Optical
Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak, of the UCI Machine Learning
Repository (https://doi.org/10.24432/C50P49), under CC BY 4.0.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

DIGITS = Path(__file__).with_name("digits.csv.gz")
"""A line for each image: its 64 pixels, each from 0 to 16, and which digit it is."""


class DigitNet(nn.Module):
    """Two convolutions, then a linear layer over the pooled features."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Scores of the ten digits, shape (batch, 10), for images of shape (batch, 1, 8, 8)."""
        return self.classifier(self.features(images).flatten(start_dim=1))


def digits(batch_size: int) -> tuple[DataLoader, DataLoader]:
    """Batches to train on, and one to test on."""
    data = torch.from_numpy(np.loadtxt(DIGITS, delimiter=",", dtype=np.float32))
    images = data[:, :64].reshape(-1, 1, 8, 8) / 16
    labels = data[:, 64].long()
    training, test = random_split(TensorDataset(images, labels), [0.8, 0.2])
    return DataLoader(training, batch_size, shuffle=True), DataLoader(test, len(test))


def train_epoch(model: nn.Module, batches: DataLoader, optimizer: torch.optim.Optimizer) -> float:
    """Go through the training data once; the mean loss."""
    model.train()
    total = 0.0
    for images, labels in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(batches)


@torch.no_grad()
def accuracy(model: nn.Module, batches: DataLoader) -> float:
    """The share of images whose digit the model names correctly."""
    model.eval()
    correct = sum(int((model(images).argmax(1) == labels).sum()) for images, labels in batches)
    return correct / sum(len(labels) for _, labels in batches)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    options = parser.parse_args()

    torch.manual_seed(0)
    training, test = digits(options.batch_size)
    model = DigitNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(1, options.epochs + 1):
        loss = train_epoch(model, training, optimizer)
        print(f"epoch {epoch}: loss {loss:.3f}, test accuracy {accuracy(model, test):.1%}")


if __name__ == "__main__":
    main()
