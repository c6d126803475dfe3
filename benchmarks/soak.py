"""``python -m benchmarks.soak``: is memory flat while a training loop is profiled in windows?"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

import opscope
from benchmarks.workloads import TRAINING

FLAT_MIB_PER_HOUR = 2.0


@dataclass(frozen=True)
class Sample:
    """How far the loop is, and what the process holds."""

    minutes: float
    windows: int
    resident_mib: float


def main() -> None:
    options = _parse()
    torch.set_num_threads(1)
    samples = soak(options.minutes * 60, options.samples)
    for sample in samples:
        print(
            f"{sample.minutes:7.2f} min  {sample.windows:7,} windows  {sample.resident_mib:.1f} MiB"
        )
    Console(highlight=False).print(verdict(samples))


def soak(seconds: float, count: int) -> list[Sample]:
    """Train for so long; of every ten steps, three are profiled with everything and looked at."""
    step = TRAINING.build()
    samples: list[Sample] = []
    windows, began = 0, time.monotonic()
    while len(samples) <= count:
        for _ in range(7):
            step()
        with opscope.profile(
            record_shapes=True, profile_memory=True, with_stack=True, with_modules=True
        ) as profiled:
            for _ in range(3):
                step()
        profiled.key_averages()
        windows += 1
        elapsed = time.monotonic() - began
        if elapsed >= len(samples) * seconds / count:
            samples.append(Sample(elapsed / 60, windows, resident_mib()))
    return samples


def verdict(samples: list[Sample]) -> str:
    """Flat or not: the slope of a line through the second half, which has no warming up in it."""
    half = samples[len(samples) // 2 :]
    minutes = [sample.minutes for sample in half]
    slope = 60 * float(np.polyfit(minutes, [sample.resident_mib for sample in half], 1)[0])
    start, end = half[0].resident_mib, half[-1].resident_mib
    is_flat = slope < FLAT_MIB_PER_HOUR or end - start < 0.01 * start
    windows = samples[-1].windows
    return (
        f"{'flat' if is_flat else 'NOT FLAT'}: {samples[0].resident_mib:.1f} MiB after the first "
        f"window, {start:.1f} MiB half way, {end:.1f} MiB after {windows:,} windows; "
        f"{slope:+.2f} MiB per hour over the second half"
    )


def resident_mib() -> float:
    """What the process has in memory now, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--samples", type=int, default=40, help="of the resident memory")
    return parser.parse_args()


if __name__ == "__main__":
    main()
