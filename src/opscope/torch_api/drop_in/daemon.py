"""Polls Dynolog's daemon for trace requests, and writes the traces."""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import select
import threading
import time
import uuid
from collections.abc import Callable

from opscope.base.daemon_thread import OwnThread, short_turns
from opscope.base.notice import notice
from opscope.base.private_files import OwnSocket
from opscope.columns.trace_data import TraceData
from opscope.export.chrome.writer import write_chrome_trace
from opscope.recording.recorder import Recording
from opscope.torch_api.activities import ChosenActivities, has_devices
from opscope.torch_api.drop_in import daemon_messages as messages
from opscope.torch_api.drop_in.daemon_messages import TraceRequest
from opscope.torch_api.settings import ProfileSettings
from opscope.torch_api.steps import StepClock

_PERIOD_S = 1.0
_ANSWER_TIMEOUT_S = 0.5
_STEPS_TIMEOUT_S = 600.0  # maximum wait for steps, after which recording ends


class DaemonClient:
    """A thread that polls once a second. Errors print at most one line."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._job = messages.job_id()
        self._pids = messages.ancestors()
        self._ending = threading.Event()
        self._open()
        self._is_registered = self._has_refused = False
        self._thread = OwnThread(self._run, self._ending.set)

    def _open(self) -> None:
        self._name = messages.address(f"dynoconfigclient{uuid.uuid4()}")
        self._endpoint = OwnSocket(messages.open_endpoint(self._name))

    def begin(self) -> None:
        """Start polling."""
        atexit.register(self._remove)
        self._thread.start()

    def end(self) -> None:
        """Stop polling; ends a running recording early."""
        self._ending.set()
        self._thread.join(_PERIOD_S + _ANSWER_TIMEOUT_S + 5)
        self._endpoint.close()
        atexit.unregister(self._remove)
        self._remove()

    def _remove(self) -> None:
        if isinstance(self._name, str) and os.getpid() == self._process:
            with contextlib.suppress(OSError):
                os.unlink(self._name)

    def _run(self) -> None:
        while not self._ending.wait(_PERIOD_S):
            try:
                request = self._poll()
                if request is not None:
                    self._record(request)
            except (OSError, ValueError):
                self._is_registered = False  # no daemon, or a new one: register again
            except Exception as error:
                notice(f"the trace for Dynolog could not be made: {error}")

    def _poll(self) -> TraceRequest | None:
        if not self._endpoint.is_ours():  # the program has closed it
            self._endpoint.close()
            self._remove()
            self._is_registered = False
            self._open()
        if not self._is_registered:
            self._exchange(messages.registration(0, self._process, self._job), "ctxt")
            self._is_registered = True
        content = self._exchange(messages.question(self._pids, self._job), "req")
        return TraceRequest.parse(content.decode("utf-8", "replace"))

    def _exchange(self, message: bytes, kind: str) -> bytes:
        endpoint = self._endpoint
        if endpoint.is_ours():
            endpoint.socket.sendto(message, messages.address(messages.DAEMON))
        until_s = time.monotonic() + _ANSWER_TIMEOUT_S
        poll = select.poll()
        poll.register(endpoint.socket, select.POLLIN)
        while (remaining_s := until_s - time.monotonic()) > 0:
            poll.poll(remaining_s * 1000)
            if not endpoint.is_ours():  # the program has closed it
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            with contextlib.suppress(BlockingIOError):
                content = self._received(kind)
                if content is not None:
                    return content
        raise TimeoutError

    def _received(self, kind: str) -> bytes | None:
        """The received message if it has this kind and a trusted sender; else None."""
        try:
            answer_kind, content = messages.receive(self._endpoint.socket, {0, os.getuid()})
        except messages.ForeignSenderError as sender:
            if not self._has_refused:
                self._has_refused = True
                notice(
                    f"user {sender} runs a Dynolog daemon, which is ignored: only a daemon of "
                    "root or of the program's user may request traces"
                )
            return None
        return content if answer_kind == kind else None

    def _record(self, request: TraceRequest) -> None:
        self._ending.wait(max(request.start_ns / 1e9 - time.time(), 0) if request.start_ns else 0)
        settings = ProfileSettings.of(request.flags)
        recording = Recording(settings.recording_options(_activities()))
        steps = _StepWait()
        try:
            if request.steps:
                steps.until(lambda count: count % request.start_multiple == 0, self._ending)
            with short_turns:
                recording.start()
            if request.steps:
                last = steps.count + request.steps
                steps.until(lambda count: count >= last, self._ending)
            else:
                self._ending.wait(request.duration_s)
        finally:
            steps.close()
            with short_turns:
                recording.stop()
        with short_turns:
            _write(recording.trace.with_metadata(settings.metadata()), request.path)
        notice(f"trace for Dynolog written to {request.path}")


def _write(trace: TraceData, path: str) -> None:
    """Write a new file and rename it, as Kineto does.

    A link is replaced, not followed: Dynolog's file names are predictable and in shared folders.
    """
    temporary = os.path.join(os.path.dirname(path), f".{uuid.uuid4()}-{os.path.basename(path)}")
    try:
        write_chrome_trace(trace, temporary)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


class _StepWait:
    def __init__(self) -> None:
        self._stepped = threading.Event()
        self._clock = StepClock()
        self._clock.counter.alarm(lambda _: self._stepped.set()).at = 0
        self._clock.begin()

    @property
    def count(self) -> int:
        return self._clock.counter.count

    def until(self, is_reached: Callable[[int], bool], ending: threading.Event) -> None:
        """Wait until ``is_reached(count)`` is true after a step, the end, or the time limit."""
        until_s = time.monotonic() + _STEPS_TIMEOUT_S
        while not ending.is_set() and time.monotonic() < until_s:
            self._stepped.clear()
            if self._stepped.wait(0.1) and is_reached(self._clock.counter.count):
                return

    def close(self) -> None:
        self._clock.end()


def _activities() -> ChosenActivities:
    return ChosenActivities(cpu=True, cuda=has_devices())
