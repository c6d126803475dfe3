"""A window's log, copied byte by byte into another process, decodes there to the same columns."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from opscope import _native, profile
from opscope.columns.codes import Want

DECODE = """
import pickle, sys
from opscope import _native
with open(sys.argv[1], "rb") as file:
    decoded = _native.decode_copy(file.read(), [])
with open(sys.argv[2], "wb") as file:
    pickle.dump(decoded, file)
"""


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.profiler.record_function("inside"):
            return torch.relu(
                self.inner(x),
            )


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for size in (1, 300):
        many = [torch.ones(2) for _ in range(size * 20)]
        torch.stack(many).sum()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()


def copied_and_decoded(window: int, folder: Path) -> tuple[Any, Any]:
    """What this process decodes, and what another one makes of a copy."""
    here = _native.decode(window, [])
    with (folder / "copy").open("wb") as copy:
        assert _native.write_log(window, copy.fileno()) == 0
    command = [sys.executable, "-c", DECODE, str(folder / "copy"), str(folder / "decoded")]
    subprocess.run(command, check=True)
    return here, pickle.loads((folder / "decoded").read_bytes())


def assert_same(here: Any, there: Any, where: str) -> None:
    """A column, or the offsets and values of one of lists."""
    for one, other in zip(
        *((v if isinstance(v, tuple) else (v,)) for v in (here, there)), strict=True
    ):
        np.testing.assert_array_equal(one, other, where)


def test_columns_are_the_same_in_another_process(tmp_path: Path) -> None:
    model = torch.nn.Sequential(Block(), Block())
    optimizer = torch.optim.Adam(model.parameters())
    everything = profile(
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
        with_modules=True,
        with_asyncio=True,
    )
    with everything:  # sets up what a window needs
        train(model, optimizer)
    wanted = sum(want for want in Want if not str(want.name).startswith("GPU"))
    window = _native.open_window(wanted, True)
    try:
        train(model, optimizer)
        _native.close_window(window)
        here, there = copied_and_decoded(window, tmp_path)
    finally:
        _native.discard_window(window)
    assert len(here["tables"]["events"]["name"]) > 500
    assert len(here["tables"]["python_calls"]["event"]) > 50
    assert (np.asarray(here["tables"]["python_calls"]["caller_line"]) > 0).any()
    assert len(here["tables"]["modules"]["name"]) == 5
    assert here["name_text"] == there["name_text"]
    assert here["account"] == there["account"]
    assert here["tables"].keys() == there["tables"].keys()
    for table, columns in here["tables"].items():
        for column, values in columns.items():
            assert_same(values, there["tables"][table][column], f"{table}.{column}")


def test_what_is_no_copy_is_refused() -> None:
    try:
        _native.decode_copy(b"something else", [])
    except ValueError as error:
        assert "not the copy of a log" in str(error)
    else:
        raise AssertionError("it was decoded")
