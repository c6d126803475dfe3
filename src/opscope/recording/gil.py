"""Builds of Python without the GIL that recording is not made for."""

from __future__ import annotations

import sys

from opscope.errors import LifecycleError

_FIRST_UNKNOWN = (3, 16)
"""Of Python: the first version that nothing is recorded of without the GIL."""


def refuse_without_gil() -> None:
    """Say that nothing can be recorded while the GIL is off, on Python 3.16 and later.

    3.13t, 3.14t and 3.15t are recorded without it. Later builds lay out what a thread runs in ways
    that opscope does not know, so importing its native core switches the GIL on there, with a
    warning of Python's; only ``PYTHON_GIL=0`` or ``-X gil=0`` keeps it off.

    Raises:
        LifecycleError: the GIL is off. What reads other threads' frames, and the lists of hooks
            and windows, are safe only under it.
    """
    is_enabled = getattr(sys, "_is_gil_enabled", None)
    is_known = sys.version_info[:2] < _FIRST_UNKNOWN
    if not is_known and is_enabled is not None and not is_enabled():
        raise LifecycleError(
            "opscope cannot record while Python 3.16 or later runs without the GIL: what other "
            "threads do would be read while they change it. Run the program with PYTHON_GIL=1 (or "
            "-X gil=1), or with Python 3.13t to 3.15t."
        )
