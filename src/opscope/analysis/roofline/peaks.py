"""Peaks of this machine: matrix products and copies, measured with torch and cached.

They are measured because no program reaches the values of data sheets. The best of many repetitions
counts: the machine may be busy during some of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.artefacts import unfinished_name
from opscope.base.cache_folder import cache_folder
from opscope.errors import not_installed

DTYPES = ("float32", "float64", "bfloat16", "float16")
"""Types in which matrix products are measured, if requested."""

_SECONDS = 0.4
_MATRIX = 384
_COPIES = tuple(1 << power for power in (15, 18, 21, 27))
"""Bytes read, from the size of the first cache to more than any cache."""

_COPIED_AT_ONCE = 1 << 22

_UNDISTURBED = 0.9  # minimum CPU time as a share of wall time: the measurement itself never waits


@dataclass(frozen=True)
class Peaks:
    """Peaks of a machine.

    Attributes:
        machine: description of the machine.
        threads: number of torch's threads.
        flops_per_s: rate of matrix products, by dtype.
        bytes_per_s: rate of copies, reading plus writing, by bytes moved.
        was_busy: other programs used the CPU meanwhile, so that the peaks may be higher.
    """

    machine: str
    threads: int
    flops_per_s: Mapping[str, float]
    bytes_per_s: Sequence[tuple[int, float]]
    was_busy: bool = False

    def bandwidth(self, moved_bytes: float) -> float:
        """Bandwidth in bytes per second for this working set: higher if it fits in a cache."""
        sizes, rates = zip(*self.bytes_per_s, strict=True)
        return float(np.interp(np.log(max(moved_bytes, 1.0)), np.log(sizes), rates))


def measured_peaks(
    dtypes: Iterable[str] = ("float32",), again: bool = False, known: Peaks | None = None
) -> Peaks:
    """Peaks of this machine; the first measurement takes seconds.

    Measurements on a busy machine are not cached.

    Args:
        dtypes: types of matrix products; others than those of ``DTYPES`` are ignored.
        again: measure even if the cache has them.
        known: an earlier result, to which only missing types are added: compared traces need the
            same peaks, even if nothing is cached.
    """
    torch = _torch()
    machine, threads = _machine(torch), torch.get_num_threads()
    place = cache_folder() / f"peaks-{_digest(machine, threads)}.json"
    if known is None and not again:
        known = _read(place)
    wanted = [dtype for dtype in DTYPES if dtype in set(dtypes)]
    flops = dict(known.flops_per_s) if known else {}
    missing = [dtype for dtype in wanted if dtype not in flops]
    if known is not None and not missing:
        return known
    computed_s, passed_s = time.process_time(), time.perf_counter()
    flops |= {dtype: _best_of_threads(torch, _matrix_rate, dtype) for dtype in missing}
    copies = known.bytes_per_s if known else _copy_rates(torch)
    computed_s, passed_s = time.process_time() - computed_s, time.perf_counter() - passed_s
    was_busy = computed_s < _UNDISTURBED * passed_s or (known is not None and known.was_busy)
    found = Peaks(machine, threads, flops, copies, was_busy)
    if not found.was_busy:
        _write(place, found)
    return found


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise not_installed("torch", "Measuring the peak of this machine") from error
    return torch


def _copy_rates(torch: Any) -> list[tuple[int, float]]:
    return [(2 * size, _best_of_threads(torch, _copy_rate, size)) for size in _COPIES]


def _best_of_threads(torch: Any, rate: Callable[[Any, Any], float], argument: str | int) -> float:
    """Better rate of one thread and of all threads, which wait for each other on a busy machine."""
    threads, best = torch.get_num_threads(), 0.0
    try:
        for count in sorted({1, threads}):
            torch.set_num_threads(count)
            best = max(best, rate(torch, argument))
    finally:
        torch.set_num_threads(threads)
    return best


def _matrix_rate(torch: Any, dtype: str) -> float:
    kind = getattr(torch, dtype)
    a, b, result = (torch.ones(_MATRIX, _MATRIX, dtype=kind) for _ in range(3))
    return 2 * _MATRIX**3 / _best_seconds(lambda: torch.mm(a, b, out=result))


def _copy_rate(torch: Any, size: int) -> float:
    """Rate of copying ``size`` bytes repeatedly, in parts if they are many."""
    parts = max(1, size // _COPIED_AT_ONCE)
    sources, targets = (torch.ones(parts, size // parts // 4) for _ in range(2))
    pairs = cycle([(sources[part], targets[part]) for part in range(parts)])

    def copy() -> None:
        source, target = next(pairs)
        target.copy_(source)

    return 2 * (size // parts) / _best_seconds(copy)


def _best_seconds(call: Callable[[], object]) -> float:
    """Shortest of many calls, each so short that many are not interrupted on a busy machine."""
    call()
    best, until = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < until:
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return best


def _machine(torch: Any) -> str:
    """Description that differs between machines of different speed."""
    capability = torch.backends.cpu.get_cpu_capability()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{_processor()}, {cores} processors, {capability}, torch {torch.__version__}"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except (OSError, ValueError):
        pass
    return platform.processor() or platform.machine()


def _digest(machine: str, threads: int) -> str:
    return hashlib.sha256(f"{machine}/{threads}".encode()).hexdigest()[:16]


def _read(place: Path) -> Peaks | None:
    """Cached peaks; None if there are none, or invalid ones."""
    try:
        kept = json.loads(place.read_text(encoding="utf-8"))
        rates = [(int(size), float(rate)) for size, rate in kept["bytes_per_s"]]
        flops = {str(dtype): float(rate) for dtype, rate in kept["flops_per_s"].items()}
        found = Peaks(str(kept["machine"]), int(kept["threads"]), flops, rates)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if rates and all(r > 0 for r in (*flops.values(), *dict(rates).values())) else None


def _write(place: Path, peaks: Peaks) -> None:
    """Cache the peaks; if that fails, they are measured again next time."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_name(unfinished_name(place.name))
        new.write_text(json.dumps(asdict(peaks)), encoding="utf-8")
        new.replace(place)
    except OSError:
        pass
