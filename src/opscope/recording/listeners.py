"""What is set up around one window beyond the native window itself, source by source."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from opscope import _native
from opscope.recording.decoded import Decoded
from opscope.recording.gpu.collecting import begin_gpu, devices, end_gpu

DEVICES = "devices"
"""What is noted of them in a stream as they are begun, for whoever reads it without its end."""


class Listener:
    """Of one source and one window; the base class sets up nothing.

    Every method may be interrupted anywhere and called again, and those that end may be called
    without what begins having been: what is there is taken down.
    """

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
        return None

    def learn(self, known: Any) -> None:
        """Know that instead."""

    def known_of_window(self) -> Any:
        """As ``known``, with what is of this window alone or takes long; asked at its end."""
        return self.known()

    def learn_of_window(self, known: Any) -> None:
        """Know that instead."""
        self.learn(known)


class OtherTools(Listener):
    """How many threads tell another tool of their Python calls, where only one can be told."""

    def __init__(self) -> None:
        self._threads = 0

    def begin(self) -> None:
        """Count them."""
        self._threads = _native.statistics()["occupied_threads"]

    def before_end(self) -> None:
        """Count once more: a tool that came meanwhile may have left again."""
        self._threads = max(self._threads, _native.statistics()["occupied_threads"])

    def added_to(self, decoded: Decoded) -> Decoded:
        """As ``occupied_threads``."""
        return replace(decoded, occupied_threads=self._threads)

    def known(self) -> int:
        """How many."""
        return self._threads

    def learn(self, known: Any) -> None:
        """So many."""
        self._threads = int(known)


class MemoryReports(Listener):
    """Whether torch's allocations can be heard in this torch."""

    def __init__(self) -> None:
        self._is_heard = True

    def begin(self) -> None:
        """Ask."""
        self._is_heard = bool(_native.statistics()["hears_memory"])

    def added_to(self, decoded: Decoded) -> Decoded:
        """As ``hears_memory``."""
        return replace(decoded, hears_memory=self._is_heard)

    def known(self) -> bool:
        """Whether they are."""
        return self._is_heard

    def learn(self, known: Any) -> None:
        """Likewise."""
        self._is_heard = bool(known)


class DeviceActivity(Listener):
    """Work of devices, which CUPTI reports."""

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
        """Why CUPTI was refused, and what devices there are, if the program uses them already."""
        return {"refused": self._refused, "properties": devices().properties()}

    def learn(self, known: Any) -> None:
        """So it was there."""
        self._refused, self._properties = known["refused"], known["properties"]

    def end(self) -> None:
        """Have them report no more, unless another window wants it."""
        end_gpu()

    def added_to(self, decoded: Decoded) -> Decoded:
        """Why CUPTI was refused, and which devices there are."""
        return replace(decoded, gpu_refused=self._refused, gpu_properties=self._properties)
