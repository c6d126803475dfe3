"""Builds of Python without the GIL, where recording needs it switched on."""

from __future__ import annotations

import sys

from opscope.errors import LifecycleError


def refuse_without_gil() -> None:
    """Say that nothing can be recorded while the GIL is off.

    Importing opscope's native core switches it on in a build that has none by default, with a
    warning of Python's; only ``PYTHON_GIL=0`` or ``-X gil=0`` keeps it off.

    Raises:
        LifecycleError: the GIL is off. What reads other threads' frames, and the lists of hooks
            and windows, are safe only under it.
    """
    is_enabled = getattr(sys, "_is_gil_enabled", None)
    if is_enabled is not None and not is_enabled():
        raise LifecycleError(
            "opscope cannot record while Python runs without the GIL: what other threads do would "
            "be read while they change it. Run the program with PYTHON_GIL=1 (or -X gil=1)."
        )
