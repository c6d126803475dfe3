"""The operators that torch has registered in this process, by name.

They are asked of torch's dispatcher, whose tables are read without a lock. The registry of
TorchScript has them too, but behind a lock that a forked child finds held for ever where a thread
of its parent was reading at the moment of the fork.
"""

from __future__ import annotations

import re
from typing import Any

_NAME = re.compile(r"\w+::\w+")
_overloads: dict[str, tuple[str, ...]] = {}


def registered_overloads(name: str) -> tuple[str, ...]:
    """Names of an operator's overloads, ``""`` among them; none for what is no operator.

    Those for tensors come before those for numbers, which some tensors would be taken for.

    Raises:
        ImportError: torch is not installed.
    """
    if name not in _overloads and _NAME.fullmatch(name) is not None:
        _list_operators()  # it may have been registered since
    return _overloads.get(name, ())


def registered_schema(name: str, overload: str) -> Any:
    """torch's schema of an operator that it has registered.

    Raises:
        ImportError: torch is not installed.
        RuntimeError: there is no such operator.
    """
    import torch

    return torch._C._dispatch_find_schema_or_throw(name, overload).schema()


def _list_operators() -> None:
    import torch

    found: dict[str, list[str]] = {}
    for full_name in torch._C._dispatch_get_all_op_names():
        name, _, overload = full_name.partition(".")
        found.setdefault(name, []).append(overload)
    for name, overloads in found.items():
        _overloads[name] = tuple(sorted(overloads, key=_order))


def _order(overload: str) -> tuple[bool, str]:
    return "Scalar" in overload, overload
