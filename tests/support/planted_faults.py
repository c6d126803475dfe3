"""A small network and data set, each with a fault that makes training slow at a known line."""

from __future__ import annotations

import time

import torch

COUNT = 160
SAMPLES = [{"x": torch.randn(16), "labels": torch.tensor(n % 2)} for n in range(COUNT)]


class Samples(torch.utils.data.Dataset):
    """Random samples; with ``slow`` each is decoded in Python."""

    def __init__(self, slow=False):
        self.slow = slow

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        if self.slow:
            time.sleep(0.004)  # fault: loading
        return SAMPLES[index]


class Network(torch.nn.Module):
    """Two layers; ``fault`` says what is wrong with it."""

    def __init__(self, fault=""):
        super().__init__()
        self.fault = fault
        self.first = torch.nn.Linear(16, 320)
        self.last = torch.nn.Linear(320, 2)

    def forward(self, x, labels):
        hidden = self.first(x).relu()
        if self.fault == "items":
            scale = 0.0
            for column in hidden.unbind(1):
                scale += column.norm().item()  # fault: items
            hidden = hidden * (1 + 0 * scale)
        if self.fault == "parts":
            columns = []
            for column in range(hidden.shape[1]):
                columns.append(torch.tanh(hidden[:, column] * 2 + 1))  # fault: parts
            hidden = torch.stack(columns, 1)
        logits = self.last(hidden)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def planted(fault):
    """Network and data set with one fault, and the number of its line."""
    with open(__file__) as source:
        lines = source.read().splitlines()
    (line,) = [n for n, text in enumerate(lines, 1) if text.endswith(f"# fault: {fault}")]
    return Network(fault), Samples(slow=fault == "loading"), line
