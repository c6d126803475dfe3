"""The matrix of torch and Python: its rows, its stand-ins for CUDA's libraries, what it says."""

from pathlib import Path


def test_what_rows_run_is_there():
    from matrix.__main__ import CALLS, CLOSEST, WITH_TORCH, WITHOUT_TORCH

    named = {*CALLS, *CLOSEST, *WITH_TORCH, *WITHOUT_TORCH}
    root = Path(__file__).parents[3]
    assert sorted(one for one in named if not (root / one).exists()) == []
