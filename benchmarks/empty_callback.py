"""The floor: torch's own cost of a callback, measured with a callback that does nothing.

No recorder that uses torch's callbacks can cost less. The callback is compiled once for the
installed torch and cached with other build products.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import torch

from benchmarks.sessions import Run, time_units, time_unprofiled
from benchmarks.workloads import Workload

SOURCE = Path(__file__).with_suffix(".cpp")
BUILD = Path(__file__).parents[1] / "build" / "benchmarks"


def run_empty_callback(workload: Workload, setting: str) -> Run:
    """Run a workload while an empty callback receives the data that ``setting`` would record."""
    unit = workload.build()
    plain_ns = time_unprofiled(unit, workload.units)
    ctypes.CDLL(str(library())).begin(setting == "shapes", setting == "memory")
    unit()
    return Run(plain_ns, time_units(unit, workload.units))


def library() -> Path:
    """The compiled callback; compiles it if missing.

    Raises:
        subprocess.CalledProcessError: it does not compile.
    """
    target = BUILD / f"empty_callback-torch-{torch.__version__}.so"
    if not target.exists() or target.stat().st_mtime < SOURCE.stat().st_mtime:
        BUILD.mkdir(parents=True, exist_ok=True)
        root = Path(torch.__file__).parent
        options = ["-std=c++20", "-O2", "-DNDEBUG", "-shared", "-fPIC", "-fvisibility=hidden"]
        abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
        torch_options = [f"-I{root / 'include'}", f"-L{root / 'lib'}", "-ltorch_cpu", "-lc10"]
        command = ["g++", *options, abi, str(SOURCE), "-o", str(target), *torch_options]
        subprocess.run(command, check=True)
    return target
