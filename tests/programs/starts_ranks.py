"""Starts two programs that run torch, and never imports it itself: ``starts_ranks.py``."""

import os
import subprocess
import sys

PROGRAM = """
import torch

layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
for _ in range(20):
    optimizer.zero_grad()
    layers(torch.ones(4, 8)).sum().backward()
    optimizer.step()
"""

ranks = [
    subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"},
    )
    for rank in range(2)
]
codes = [rank.wait() for rank in ranks]
assert "torch" not in sys.modules, "torch was imported"
sys.exit(max(codes))
