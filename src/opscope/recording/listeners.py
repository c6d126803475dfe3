"""Set-up of sources around a native window."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import numpy as np

from opscope import _native
from opscope.columns.ledger import COMPUTED, WAITED
from opscope.columns.names import Names
from opscope.recording.decoded import Decoded
from opscope.recording.gpu.devices import begin_gpu, devices, end_gpu

DEVICES = "devices"
"""Key of the note in a stream that says what is known of devices as they are begun."""


class Listener:
    """Of one source and one window; the base class sets up nothing.

    Every method may be interrupted anywhere and called again, and those that end may be called
    without what begins having been: what is there is taken down.
    """

    _known: Any = None
    """The collected facts, as JSON by default."""

    def prepare(self) -> None:
        """The window is about to open: what takes long, and would be in it."""

    def begin(self) -> None:
        """The window has opened."""

    def before_end(self) -> None:
        """The window is about to close."""

    def end(self) -> None:
        """The window has closed."""

    def added_to(self, decoded: Decoded) -> Decoded:
        """With what this knows, once the window is decoded."""
        return decoded

    def known(self) -> Any:
        """What this knows, as JSON, for a listener of this class in the process that decodes."""
        return self._known

    def learn(self, known: Any) -> None:
        """Know that instead."""
        self._known = known

    def window_state(self) -> Any:
        """As ``known``, with what is of this window alone or takes long; asked at its end."""
        return self.known()

    def learn_of_window(self, known: Any) -> None:
        """Know that instead."""
        self.learn(known)


class OtherTools(Listener):
    """How many threads report Python calls to another tool, where only one tool can be set."""

    _known = 0

    def begin(self) -> None:
        """Count them."""
        self._known = _native.statistics()["occupied_threads"]

    def before_end(self) -> None:
        """Count once more: a tool that came meanwhile may have left again."""
        self._known = max(self._known, _native.statistics()["occupied_threads"])

    def added_to(self, decoded: Decoded) -> Decoded:
        """As ``occupied_threads``."""
        return replace(decoded, occupied_threads=int(self._known))


class MemoryReports(Listener):
    """Whether this torch reports its allocations."""

    _known = True

    def begin(self) -> None:
        """Read it."""
        self._known = bool(_native.statistics()["hears_memory"])

    def added_to(self, decoded: Decoded) -> Decoded:
        """As ``hears_memory``."""
        return replace(decoded, hears_memory=bool(self._known))


class DeviceActivity(Listener):
    """Work of devices, which CUPTI reports. Known: why CUPTI was refused, and the devices."""

    def __init__(self, wants: int) -> None:
        """``wants``: what the window will want of the recorder."""
        self._wants = wants
        self._refused = ""
        self._properties: list[dict[str, Any]] = []

    def prepare(self) -> None:
        """Have devices report, which the first time takes tens of milliseconds."""
        self._refused = begin_gpu(self._wants)
        devices().properties()  # the runtime asks the driver for them once

    def begin(self) -> None:
        """Have them report still: a window that ended meanwhile may have been the only one."""
        if not self._refused:
            self._refused = begin_gpu()
        _native.note_in_stream(json.dumps({DEVICES: self.known()}))

    def known(self) -> dict[str, Any]:
        """Devices have properties once the program uses them."""
        return {"refused": self._refused, "properties": devices().properties()}

    def learn(self, known: Any) -> None:
        """From the process with the devices."""
        self._refused, self._properties = known["refused"], known["properties"]

    def end(self) -> None:
        """Have them report no more, unless another window wants it."""
        end_gpu()

    def added_to(self, decoded: Decoded) -> Decoded:
        """Why CUPTI was refused, and which devices there are."""
        return replace(decoded, gpu_refused=self._refused, gpu_properties=self._properties)


class ThreadNames(Listener):
    """What ``threading`` calls threads, but for the main thread, by number in the system.

    The kernel knows them by the name of their process, before Python 3.14. The native recorder
    reads those of threads whose Python calls it records; these are the others: threads that were
    there when a window opened or closed.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def begin(self) -> None:
        """Note those that are there."""
        self._known |= {str(number): name for number, name in names_of_threads().items()}

    def before_end(self) -> None:
        """Note those that came since."""
        self.begin()

    def added_to(self, decoded: Decoded) -> Decoded:
        """As the names of ``threads``."""
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


class ProcessorTime(Listener):
    """How long the thread that opens a window computes in it, and waits for a CPU.

    The difference of the kernel's counts, which tells a slow program from a busy machine. Nothing
    where the kernel keeps none.
    """

    def __init__(self) -> None:
        self._thread = 0
        self._known: list[Any] = [None, None]

    def begin(self) -> None:
        """Read the counts of this thread."""
        self._thread = threading.get_native_id()
        self._known[0] = processor_counts(self._thread)

    def before_end(self) -> None:
        """Read them again, from whichever thread it is now."""
        self._known[1] = processor_counts(self._thread)

    def added_to(self, decoded: Decoded) -> Decoded:
        """As ``processor``."""
        began, ended = self._known
        if began is None or ended is None:
            return decoded
        computed, waited = (max(int(b) - int(a), 0) for a, b in zip(began, ended, strict=True))
        return replace(decoded, processor={COMPUTED: computed, WAITED: waited})


def processor_counts(thread: int) -> tuple[int, int] | None:
    """Nanoseconds on a processor, and waiting for one; None where they are not counted."""
    try:
        # Not as text: its codec may be imported then, and a forked child must not wait for that.
        with open(f"/proc/self/task/{thread}/schedstat", "rb", buffering=0) as file:
            fields = file.read().split()
        computed, waited = int(fields[0]), int(fields[1])
    except (OSError, ValueError, IndexError):
        return None
    return computed, waited
