"""Which source files are the program's own, and which are installed."""

from __future__ import annotations

import os
import sys

_INSTALLED = ("/site-packages/", "/dist-packages/", "<frozen", "/lib/python3", "\\Lib\\")
_STARTERS = frozenset({"opscope", "pytest", "torchrun"})


def is_library(file: str) -> bool:
    """Whether a file is installed rather than part of the program; so is one without a name."""
    if not file or file.startswith(("torch/", sys.prefix + "/lib/python")):
        return True
    return any(part in file for part in _INSTALLED) or os.path.basename(file) in _STARTERS
