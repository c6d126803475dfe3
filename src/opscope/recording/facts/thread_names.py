"""What Python calls threads: the kernel knows them by the name of their process, before 3.14.

Of threads whose Python calls are recorded the native recorder asks. These are the others: those
that were there when a window opened or closed.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from opscope.columns.names import Names
from opscope.recording.decoded import Decoded
from opscope.recording.listeners import Listener


class ThreadNames(Listener):
    """By number in the system, of those that ``threading`` knows, but for the main thread."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def begin(self) -> None:
        """Note those that are there."""
        self._names.update(names_of_threads())

    def before_end(self) -> None:
        """Note those that came since."""
        self._names.update(names_of_threads())

    def added_to(self, decoded: Decoded) -> Decoded:
        """As the names of ``threads``."""
        threads = decoded.tables["threads"]
        numbers = threads["system_thread_id"].tolist()
        rows = [row for row, number in enumerate(numbers) if number in self._names]
        if not rows:
            return decoded
        more = Names.from_strings(self._names[numbers[row]] for row in rows)
        name = threads["name"].copy()
        name[rows] = len(decoded.names) + np.arange(len(rows), dtype=name.dtype)
        renamed = decoded.with_tables(threads=threads.replaced({"name": name}))
        return renamed.with_names(decoded.names.followed_by(more))

    def known(self) -> dict[str, str]:
        """All that were seen."""
        return {str(number): name for number, name in self._names.items()}

    def learn(self, known: Any) -> None:
        """Those."""
        self._names = {int(number): str(name) for number, name in known.items()}


def names_of_threads() -> dict[int, str]:
    """By number in the system; none that were made up for threads that others began.

    Without the lock of ``threading``, which a signal handler that records may have interrupted the
    holder of, and without the properties of threads, which programs make their own.
    """
    main, made_up = threading.main_thread(), threading._DummyThread
    threads = list(threading._active.values())  # type: ignore[attr-defined]
    facts = [vars(one) for one in threads if one is not main and not isinstance(one, made_up)]
    named = [(fact.get("_native_id"), fact.get("_name")) for fact in facts]
    return {
        number: name for number, name in named if isinstance(number, int) and isinstance(name, str)
    }
