"""Which source files are the program's own, and which are installed."""

from __future__ import annotations

import os
import sys

LIBRARY_MARKS = (
    *("/site-packages/", "/dist-packages/", "<frozen", "/lib/python3", "\\Lib\\"),
    sys.prefix + "/lib/python",
)
"""What the full names of installed files contain."""

_STARTERS = frozenset({"opscope", "pytest", "torchrun"})


def is_library(file: str) -> bool:
    """Whether a file is installed rather than part of the program; so is one without a name."""
    if not file or file.startswith("torch/"):  # as older traces name it
        return True
    return any(mark in file for mark in LIBRARY_MARKS) or os.path.basename(file) in _STARTERS
