"""Listeners: each sets up one data source around a native window."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import numpy as np

import opscope._native as _native
from opscope.columns.names import Names
from opscope.recording.decoded import Decoded
from opscope.recording.gpu.devices import begin_gpu, device_properties, end_gpu


class Listener:
    """Sets up one source around one window; the base class sets up nothing.

    An interrupt may stop any method anywhere; the method then runs again. ``before_end`` and
    ``end`` also run without ``begin``, and undo whatever is set up.
    """

    _known: Any = None
    """Collected facts; JSON, unless a subclass overrides :meth:`known` and :meth:`learn`."""

    def prepare(self) -> None:
        """Do slow work before the window opens, so that it is not recorded."""

    def begin(self) -> None:
        """Run after the window opened."""

    def before_end(self) -> None:
        """Run before the window closes."""

    def end(self) -> None:
        """Run after the window closed."""

    def added_to(self, decoded: Decoded) -> Decoded:
        """Add the collected facts to the decoded window."""
        return decoded

    def known(self, whole: bool = True) -> Any:
        """Collected facts as JSON, for :meth:`learn`; ``whole``: with those slow to collect."""
        return self._known

    def learn(self, known: Any) -> None:
        """Take over facts, in the process that decodes; may be called again with later facts."""
        self._known = known

    @classmethod
    def write_note(cls, known: Any) -> None:
        """Write facts for :meth:`learn` to the running stream: the process may be killed."""
        _native.note_in_stream(json.dumps({cls.__name__: known}))


class OtherTools(Listener):
    """Number of threads that report Python calls to another tool."""

    _known = 0

    def begin(self) -> None:
        """Count the threads."""
        self._known = _native.statistics()["occupied_threads"]

    def before_end(self) -> None:
        """Count again, and keep the larger number: a tool may come and go."""
        self._known = max(self._known, _native.statistics()["occupied_threads"])

    def added_to(self, decoded: Decoded) -> Decoded:
        """Set ``occupied_threads``."""
        return replace(decoded, occupied_threads=int(self._known))


class MemoryReports(Listener):
    """Whether this torch reports its allocations."""

    _known = True

    def begin(self) -> None:
        """Read the state from the native recorder."""
        self._known = bool(_native.statistics()["reports_memory"])

    def added_to(self, decoded: Decoded) -> Decoded:
        """Set ``reports_memory``."""
        return replace(decoded, reports_memory=bool(self._known))


class DeviceActivity(Listener):
    """Device work from CUPTI, or why CUPTI was refused, and properties of the devices."""

    def __init__(self, wants: int) -> None:
        """``wants``: the window's bits for the recorder."""
        self._wants = wants
        self._refused = ""
        self._properties: list[dict[str, Any]] = []

    def prepare(self) -> None:
        """Start collecting, which takes tens of milliseconds the first time."""
        self._refused = begin_gpu(self._wants)
        device_properties()  # the CUDA runtime queries the driver once

    def begin(self) -> None:
        """Start again if needed: another window may have ended since, and collecting with it."""
        if not self._refused:
            self._refused = begin_gpu()
        self.write_note(self.known())

    def known(self, whole: bool = True) -> dict[str, Any]:
        """Reason of refusal, and properties, which exist once the program uses devices."""
        return {"refused": self._refused, "properties": device_properties()}

    def learn(self, known: Any) -> None:
        """Take over facts from the process with the devices."""
        self._refused, self._properties = known["refused"], known["properties"]

    def end(self) -> None:
        """Stop collecting, unless another window wants devices."""
        end_gpu()

    def added_to(self, decoded: Decoded) -> Decoded:
        """Set ``gpu_refused`` and ``gpu_properties``."""
        return replace(decoded, gpu_refused=self._refused, gpu_properties=self._properties)


class ThreadNames(Listener):
    """Names of threads in ``threading``, without the main thread, by system thread id.

    Before Python 3.14 the kernel knows only the process name. The native recorder reads names of
    threads whose Python calls it records; this listener adds threads that exist when the window
    opens or closes.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def begin(self) -> None:
        """Read the names of current threads."""
        self._known |= {str(number): name for number, name in names_of_threads().items()}

    def before_end(self) -> None:
        """Add the names of new threads."""
        self.begin()

    def added_to(self, decoded: Decoded) -> Decoded:
        """Fill in the names of ``threads``."""
        threads = decoded.tables["threads"]
        numbers = [str(number) for number in threads["system_thread_id"].tolist()]
        rows = [row for row, number in enumerate(numbers) if number in self._known]
        if not rows:
            return decoded
        more = Names.from_strings(str(self._known[numbers[row]]) for row in rows)
        name = threads["name"].copy()
        name[rows] = len(decoded.names) + np.arange(len(rows), dtype=name.dtype)
        renamed = decoded.with_tables(threads=threads.replaced({"name": name}))
        return renamed.with_names(decoded.names.followed_by(more))


def names_of_threads() -> dict[int, str]:
    """Thread names by system thread id, without the main thread and dummy threads.

    Takes no lock of ``threading``, which an interrupted thread may hold. Reads no properties of
    threads, which programs override.
    """
    main, made_up = threading.main_thread(), threading._DummyThread
    threads = list(threading._active.values())  # type: ignore[attr-defined]
    facts = [vars(one) for one in threads if one is not main and not isinstance(one, made_up)]
    named = [(fact.get("_native_id"), fact.get("_name")) for fact in facts]
    return {
        number: name for number, name in named if isinstance(number, int) and isinstance(name, str)
    }


def processor_counts(thread: int) -> tuple[int, int] | None:
    """Nanoseconds on a CPU, and waiting for one; None if the kernel does not count them."""
    try:
        # Not as text, which may import a codec; a forked child must not wait for an import.
        with open(f"/proc/self/task/{thread}/schedstat", "rb", buffering=0) as file:
            fields = file.read().split()
        computed, waited = int(fields[0]), int(fields[1])
    except (OSError, ValueError, IndexError):
        return None
    return computed, waited
