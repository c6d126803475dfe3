"""The checks. Every file here defines one or several, and is registered by being here."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from opscope.findings.pattern import Pattern


def all_patterns() -> tuple[Pattern, ...]:
    """All patterns of the files in this folder, file by file, as they are defined there."""
    modules = sorted(one.name for one in pkgutil.iter_modules(__path__))
    return tuple(
        value
        for module in modules
        for value in vars(import_module(f"{__name__}.{module}")).values()
        if isinstance(value, Pattern)
    )
