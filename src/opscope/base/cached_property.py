"""Attributes that are computed on first access and cached.

Unlike :func:`functools.cached_property` below Python 3.12 this takes no lock, which all objects of
a class would share: a signal handler that reads an attribute while the interrupted code computes it
would deadlock, and so would a forked child. Two threads may both compute the value; the first
result is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:
        """Decorator for a method without arguments."""

        def __init__(self, compute: Any) -> None:
            self._compute = compute
            self._name = compute.__name__
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type) -> Any:
            if instance is None:
                return self
            # Python finds the value in the instance from now on: this is not a data descriptor.
            return vars(instance).setdefault(self._name, self._compute(instance))


__all__ = ["cached_property"]
