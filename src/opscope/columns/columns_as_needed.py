"""Columns of a table that are read when they are first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any


class ColumnsAsNeeded(Mapping[str, Any]):
    """By name. Any thread may ask; one reads at a time."""

    def __init__(
        self, names: Iterable[str], read: Callable[[str], Any], check: Callable[[str], None]
    ) -> None:
        """
        Args:
            names: of all that there are.
            read: makes a column.
            check: raises where it holds what it cannot; is called when it is there, since it may
                have to be compared with others.
        """
        self._names = dict.fromkeys(names)
        self._read, self._check = read, check
        self._there: dict[str, Any] = {}
        self._lock = threading.RLock()

    def __getitem__(self, name: str) -> Any:
        """Of that name.

        Raises:
            KeyError: there is none.
            Exception: whatever reading and checking it raises; it is read again then if asked for.
        """
        if name not in self._names:
            raise KeyError(name)
        with self._lock:
            if name not in self._there:
                self._there[name] = self._read(name)
                try:
                    self._check(name)
                except BaseException:
                    del self._there[name]
                    raise
            return self._there[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
