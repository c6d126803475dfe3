"""Fixtures and settings shared by every test."""

import contextlib
import gc
import os

from support.strict_where import make_where_strict

with contextlib.suppress(ImportError):  # an interpreter that it has no build for
    from hypothesis import HealthCheck, settings

    # How long an example takes says something about the machine, not about the code.
    slow = [HealthCheck.too_slow]
    settings.register_profile("opscope", deadline=None, suppress_health_check=slow)
    settings.load_profile("opscope")

# A library's progress bar would leave a thread behind that wakes up in what a later test records.
with contextlib.suppress(ImportError):
    import tqdm

    tqdm.tqdm.monitor_interval = 0

# What programs leave to another process is there when they have ended, also on a busy machine.
os.environ["OPSCOPE_END_WAIT"] = "120"

# torch.compile tries what the C++ compiler can do, precompiles headers and starts workers: longer
# than the few kernels of a test take without.
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = "0"
os.environ["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] = "0"

# Tables are as wide as the terminal around the tests says; here they are what a pipe gets.
os.environ.pop("COLUMNS", None)

make_where_strict()

pytest_plugins = ["support.needs_torch"]
if "OPSCOPE_TESTS_TAKEN" in os.environ:  # one of several processes, see run.py
    pytest_plugins.append("support.taken_files")
if "OPSCOPE_MATRIX_OUTCOMES" in os.environ:  # a row of the matrix, see matrix
    pytest_plugins.append("matrix.outcomes")


def pytest_collection_finish():
    """What is imported by now is looked through by no collection: it would be most of one."""
    gc.collect()
    gc.freeze()
