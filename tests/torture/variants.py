"""Environments that programs run in: as it is, or with memory that is checked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_FILLED = {"PYTHONMALLOC": "debug", "MALLOC_PERTURB_": "165"}
"""Freed memory is filled, so that using it later does not go well by chance."""

_ASAN = Path(__file__).parents[2] / "build" / "torture-asan"


@dataclass(frozen=True)
class Variant:
    """A Python and what is in its environment; what its programs have to do without."""

    python: str = sys.executable
    variables: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    def environment(self) -> dict[str, str]:
        """Of a program's process."""
        return {**os.environ, **self.variables}


def variant(name: str) -> Variant:
    """The variant called ``name``.

    Raises:
        KeyError: there is none.
    """
    return {"plain": Variant, "debug": _debug, "dev": _dev, "asan": _asan}[name]()


NAMES = ("plain", "debug", "dev", "asan")


def _debug() -> Variant:
    return Variant(variables=_FILLED)


def _dev() -> Variant:
    return Variant(variables={**_FILLED, "PYTHONDEVMODE": "1"})


def _asan() -> Variant:
    """Core and bridge with the address sanitizer; ``make torture VARIANT=asan`` builds them."""
    libraries = [_library("libasan.so"), _library("libstdc++.so.6")]  # exceptions need the latter
    return Variant(
        str(_ASAN / "bin" / "python"),
        {
            "LD_PRELOAD": ":".join(libraries),
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:detect_odr_violation=0",
            "PYTHONMALLOC": "malloc",
            "CXX": "g++ -fsanitize=address -fno-omit-frame-pointer -g",
            "OPSCOPE_CACHE": str(_ASAN / "cache"),
        },
        # GCC's (12) does not see to its allocator's locks at a fork: where another thread allocates
        # at that moment, the child waits for ever for one of them in its first call of malloc.
        without=("forks",),
    )


def _library(name: str) -> str:
    command = ["g++", f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
