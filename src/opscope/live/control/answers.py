"""The requests that a listening process answers, one method each."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import opscope._native as _native
from opscope.base.private_files import OwnFile
from opscope.errors import OpscopeError, ReachError
from opscope.live.control.protocol import VERSION
from opscope.torch_api.steps import StepClock

if TYPE_CHECKING:
    from opscope.live.control.recordings import RequestedRecording
    from opscope.live.flight.recorder import flight_recorder


class ControlSession:
    """One connection, and the recordings that end with it."""

    def __init__(self, started: Started) -> None:
        self._started = started
        self._bound: RequestedRecording | None = None
        self._steps: StepClock | None = None

    def answer(self, request: dict[str, Any], file: OwnFile | None) -> dict[str, Any]:
        """Execute the request; errors become answers."""
        answer, version = _ANSWERS.get(str(request.get("do"))), request.get("opscope")
        try:
            if version != VERSION:
                raise ReachError(
                    f"This process uses version {VERSION} of the protocol, the request version "
                    f"{version}. Use the same version of opscope on both sides."
                )
            if answer is None:
                raise ReachError(
                    f"This process does not know the request {request.get('do')!r}. Use the same "
                    "version of opscope on both sides."
                )
            return answer(self, request, file)
        except OpscopeError as error:
            return {"error": str(error)}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}. See the output of the program."}

    def close(self) -> None:
        """Discard the connection's recordings; called when the client has disconnected."""
        if self._bound is not None:
            self._bound.discard()
            self._bound = None
        if self._steps is not None:
            self._steps.end()
            self._steps = None

    def status(self, request: dict[str, Any], file: OwnFile | None) -> dict[str, Any]:
        """State of this process and its recordings."""
        torch = sys.modules.get("torch")
        return {
            "process": os.getpid(),
            "command": command_line(),
            "listening_since_ns": self._started.listening_since_ns,
            "python": platform.python_version(),
            "torch": str(getattr(torch, "__version__", "")),
            "recording": _native.statistics()["wanted"] != 0,
            "started": self._started.recording is not None,
            "used_bytes": _native.statistics()["used_bytes"],
            "flight": [_flight_status(one) for one in _flight_recorders()],
        }

    def record(self, request: dict[str, Any], file: OwnFile | None) -> dict[str, Any]:
        """Record while this connection lasts."""
        if self._bound is not None:
            raise ReachError("This connection already records. Open another one.")
        self._bound = _start_recording(request)
        return {"began_ns": time.time_ns()}

    def hand_over(self, request: dict[str, Any], file: OwnFile | None) -> dict[str, Any]:
        """Stop and send the recording of this connection."""
        if self._bound is None:
            raise ReachError("This connection has no recording. Start one first.")
        answer = self._bound.write(file, str(request.get("folder", "")))
        self._bound = None
        return answer

    def sample(self, request: dict[str, Any], file: OwnFile | None) -> dict[str, Any]:
        """Send the records and steps since the last sample."""
        if self._steps is None:
            self._steps = StepClock()
            self._steps.begin()
        if self._bound is None or file is None:
            raise ReachError("This connection has no recording. Start one first.")
        count, durations_ns = self._steps.take()
        return {**self._bound.rotate(file), "steps": count, "steps_ns": durations_ns}

    def start(self, request: dict[str, Any], file: OwnFile | None) -> dict[str, Any]:
        """Record until a stop request."""
        if self._started.recording is not None:
            raise ReachError("It is already recording. Stop it first: opscope attach --stop PID.")
        self._started.recording = _start_recording(request)
        return {"began_ns": time.time_ns()}

    def stop(self, request: dict[str, Any], file: OwnFile | None) -> dict[str, Any]:
        """Stop and send the recording of ``start``; if sending fails, the recording stays."""
        recording = self._started.recording
        if recording is None:
            raise ReachError("It is not recording. Start it with: opscope attach --start PID.")
        answer = recording.write(file, str(request.get("folder", "")))
        self._started.recording = None
        return answer

    def dump(self, request: dict[str, Any], file: OwnFile | None) -> dict[str, Any]:
        """Request a dump from the flight recorder."""
        recorders = _flight_recorders()
        if not recorders:
            raise ReachError("It has no flight recorder. To record it now: opscope attach PID.")
        return {"trace": str(recorders[0].dump(str(request.get("reason", "")), wait=False))}


class Started:
    """State that all connections share: when listening began, and the recording of ``start``."""

    def __init__(self, listening_since_ns: int) -> None:
        self.listening_since_ns = listening_since_ns
        self.recording: RequestedRecording | None = None


Answer = Callable[[ControlSession, dict[str, Any], OwnFile | None], dict[str, Any]]
_ANSWERS: dict[str, Answer] = {
    "status": ControlSession.status,
    "record": ControlSession.record,
    "hand over": ControlSession.hand_over,
    "sample": ControlSession.sample,
    "start": ControlSession.start,
    "stop": ControlSession.stop,
    "dump": ControlSession.dump,
}


def _start_recording(request: dict[str, Any]) -> RequestedRecording:
    from opscope.live.control.recordings import RequestedRecording, options_of

    recording = RequestedRecording(options_of(request.get("recorded", {})))
    recording.start()
    return recording


def command_line() -> str:
    """Command line of this process."""
    return " ".join(map(str, sys.orig_argv))


def _flight_recorders() -> list[flight_recorder]:
    """Running flight recorders; imports nothing if the program has none."""
    flight = sys.modules.get("opscope.live.flight.recorder")
    return [] if flight is None else list(flight.running_recorders())


def _flight_status(recorder: flight_recorder) -> dict[str, Any]:
    status = recorder.status()
    return {
        "level": status.level,
        "requested_s": status.requested_s,
        "held_s": round(status.held_s, 3),
        "own_share": round(status.own_share, 5),
        "steps": status.steps,
        "dumps": [str(path) for path in status.dumps],
        "refused": status.refused,
        "faults": status.faults,
    }
