"""Environments that programs run in: as it is, or with memory that is checked."""

from __future__ import annotations

import os
from collections.abc import Mapping

VARIANTS: dict[str, dict[str, str]] = {
    "plain": {},
    # Freed memory is filled, so that using it later does not go well by chance.
    "debug": {"PYTHONMALLOC": "debug", "MALLOC_PERTURB_": "165", "MALLOC_CHECK_": "3"},
    "dev": {"PYTHONDEVMODE": "1", "PYTHONMALLOC": "debug", "MALLOC_PERTURB_": "165"},
}


def environment(variant: str) -> Mapping[str, str]:
    """The environment of a program's process."""
    return {**os.environ, **VARIANTS[variant]}
