"""Attributes that are computed on first access and cached.

:func:`functools.cached_property` below Python 3.12 takes a lock that all objects of a class share.
A signal handler that reads an attribute while the interrupted code computes it would deadlock, and
so would a forked child. This one has no lock: two threads may compute a value, the first stays.
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
            # From now on Python finds the value in the instance: this is not a data descriptor.
            return vars(instance).setdefault(self._name, self._compute(instance))


__all__ = ["cached_property"]
