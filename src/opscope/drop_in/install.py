"""Putting opscope beneath torch.profiler, and taking it away again.

What is replaced are the functions torch's Python profiler calls into C++ for, the classes of what
they return, and the few Python methods that would turn columns into objects. Classes such as
``torch.profiler.profile`` stay what they are, so a program that imported them before the switch is
switched as well.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

_MISSING = object()
_saved: list[tuple[Any, str, Any]] = []


class Installed:
    """What :func:`install` returns: in a ``with`` block, takes opscope away at its end."""

    def __enter__(self) -> Installed:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        uninstall()


def install() -> Installed:
    """Have torch.profiler record with opscope, until :func:`uninstall`. Idempotent.

    Raises:
        BridgeError: there is no torch.
    """
    if not _saved:
        from opscope.drop_in.replacements import replacements

        try:
            for module, name, value in replacements():
                _replace(module, name, value)
        except BaseException:
            uninstall()
            raise
    return Installed()


def uninstall() -> None:
    """Put every name back. Idempotent."""
    while _saved:
        owner, name, value = _saved.pop()
        if value is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, value)


def is_installed() -> bool:
    """Whether torch.profiler records with opscope."""
    return bool(_saved)


def _replace(owner: Any, name: str, value: Any) -> None:
    _saved.append((owner, name, vars(owner).get(name, _MISSING)))
    setattr(owner, name, value)


def holders(module_names: list[str], name: str) -> list[Any]:
    """Modules, of those named, that have a global ``name``; imported if need be."""
    modules = [importlib.import_module(module) for module in module_names]
    return [module for module in modules if name in vars(module)]


def importers(original: Any, name: str) -> list[Any]:
    """All loaded modules with a global ``name`` that is ``original``: those that imported it."""
    found = []
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name, _MISSING) is original:
            found.append(module)
    return found


Replacement = tuple[Any, str, Any]
Function = Callable[..., Any]
