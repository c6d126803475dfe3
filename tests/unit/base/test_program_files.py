"""Which files are the program's own."""

from __future__ import annotations

import pytest

from opscope.base.program_files import is_library


@pytest.mark.parametrize(
    "file",
    [
        "",
        "torch/nn/modules/module.py",
        "/home/me/.venv/lib/python3.11/site-packages/numpy/core.py",
        "/usr/bin/torchrun",
        "/home/me/.venv/bin/pytest",
        "<frozen importlib._bootstrap>",
        f"/tmp/torchinductor_me/x4/c{'x4re2' * 10}a.py",
    ],
)
def test_what_is_installed(file):
    assert is_library(file)


@pytest.mark.parametrize(
    "file", ["train.py", "/home/me/pytest/train.py", "my_torchrun", "<string>"]
)
def test_what_is_the_programs(file):
    assert not is_library(file)
