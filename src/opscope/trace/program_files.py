"""Which source files are the program's own, and which are installed."""

from __future__ import annotations

import os
import sys

_INSTALLED = ("/site-packages/", "/dist-packages/", "<frozen", "/lib/python3", "\\Lib\\")
_STARTERS = frozenset({"opscope", "pytest", "torchrun"})


def library_marks() -> tuple[str, ...]:
    """What the full names of installed files contain."""
    return (*_INSTALLED, sys.prefix + "/lib/python")


def is_library(file: str) -> bool:
    """Whether a file is installed rather than part of the program; so is one without a name."""
    if not file or file.startswith("torch/"):  # as older traces name it
        return True
    return any(mark in file for mark in library_marks()) or os.path.basename(file) in _STARTERS
