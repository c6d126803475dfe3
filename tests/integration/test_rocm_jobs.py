"""A job that somebody recorded on an AMD device, through the collector with roctracer's source."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


def test_the_trace_equals_the_file_and_refusals_are_told() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a real device: see tests/gpu")
    done = subprocess.run(
        [sys.executable, "-m", "tests.recorded_gpu", "--rocm"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": equal") == 2
    assert done.stdout.count(": told") == 2
    assert "GPU activity is not recorded: no buffers could be made" in done.stderr
