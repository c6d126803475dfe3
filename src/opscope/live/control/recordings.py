"""Recordings of this process that another process requests."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import opscope._native as _native
from opscope.base.memory_limit import default_growth_bytes
from opscope.base.private_files import OwnFile
from opscope.errors import ReachError
from opscope.jobs.saving import save_trace
from opscope.recording.cost import cost_by_kind
from opscope.recording.recorder import Recording
from opscope.recording.sources import RecordingOptions, native_wants, prepare_sources
from opscope.recording.streams.detached_trace import ProcessKnowledge
from opscope.torch_api.activities import ChosenActivities, has_devices
from opscope.torch_api.settings import ProfileSettings


def options_of(recorded: Mapping[str, bool]) -> RecordingOptions:
    """Recording options for arguments of :class:`opscope.profile`."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "ops"):
        raise ReachError("The program has not imported torch yet. Try again later.")
    chosen = ChosenActivities(cpu=True, cuda=has_devices())
    settings = ProfileSettings.of({name: bool(on) for name, on in recorded.items()})
    return settings.recording_options(chosen)


class RequestedRecording:
    """One recording; the client receives the log and makes the trace.

    With devices, this process makes the trace: only it has their activity.
    """

    def __init__(self, options: RecordingOptions) -> None:
        self._options = options
        self._knowledge = ProcessKnowledge(options)
        self._window = 0
        self._local_recording: Recording | None = None
        self._facts: dict[str, Any] | None = None  # set at the stop

    def start(self) -> None:
        """Record from now on."""
        if self._options.gpu:
            self._local_recording = Recording(self._options)
            self._local_recording.start()
            return
        prepare_sources()
        cost_by_kind(self._options)
        try:
            self._window = self._open()
            self._knowledge.begin()
        except BaseException:
            self.discard()
            raise

    def write(self, file: OwnFile | None, folder: str) -> dict[str, Any]:
        """Stop, write the log to ``file``, and return ``facts``; with devices, return ``trace``.

        Nothing is lost by an error: the client may request it again.
        """
        if self._local_recording is not None:
            self._local_recording.stop()
            return {"trace": str(save_trace(self._local_recording.trace, folder).parent)}
        if self._facts is None:
            _native.close_window(self._window)
            self._facts = self._knowledge.facts(whole=True)
        _write_log(self._window, file)
        self.discard()
        return {"facts": self._facts}

    def rotate(self, file: OwnFile) -> dict[str, Any]:
        """Write the records since the last call to ``file``, and continue to record."""
        closed_window, self._window = self._window, self._open()
        _native.close_window(closed_window)
        try:
            facts = self._knowledge.facts()  # after closing the window, to include its functions
            _write_log(closed_window, file)
        finally:
            _native.discard_window(closed_window)
        return {"facts": facts}

    def _open(self) -> int:
        wants, most_bytes = native_wants(self._options), default_growth_bytes()
        return _native.open_window(wants, True, most_growth_bytes=most_bytes)

    def discard(self) -> None:
        """Stop, and discard the records. Idempotent."""
        if self._local_recording is not None:
            self._local_recording.stop()
            self._local_recording = None
        if self._window:
            self._knowledge.end()
            _native.discard_window(self._window)
            self._window = 0


def _write_log(window: int, file: OwnFile | None) -> None:
    if file is None:
        raise ReachError(
            "The request has no file to write to. Use the same version of opscope on both sides."
        )
    error = _native.write_log(window, file.descriptor)
    if error:
        raise ReachError(
            "The recording cannot be copied to the temporary folder of `opscope attach`: "
            f"{os.strerror(error)}. Free space there or set TMPDIR, then try again."
        )
