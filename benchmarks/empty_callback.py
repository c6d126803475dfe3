"""The floor: what torch spends on telling anybody, measured with a listener that does nothing.

Nobody who uses torch's instrumentation points can be cheaper. The listener is compiled once against
the installed torch and kept next to other build products.
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
    """Run a workload while a listener does nothing with what ``setting`` would record."""
    unit = workload.build()
    plain_ns = time_unprofiled(unit, workload.units)
    ctypes.CDLL(str(library())).begin(setting == "shapes", setting == "memory")
    unit()
    return Run(plain_ns, time_units(unit, workload.units))


def library() -> Path:
    """The compiled listener, made if it is not there.

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
