"""Polls Dynolog's daemon for trace requests, and writes the traces.

Datagrams over Unix sockets with abstract names, or with files in ``KINETO_IPC_SOCKET_DIR``. Each
has the length of its content (8 bytes), its type (32 bytes, zero-terminated), and the content. The
daemon listens as ``dynolog``.

| type | content | answer |
|---|---|---|
| ctxt | device, process (int32), job (int64) | number of registered processes of the job (int32) |
| req | kind, count (int32), job (int64), count processes (int32) | a configuration; often empty |

A configuration is lines of ``KEY=VALUE``.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import select
import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from opscope.base.daemon_thread import OwnThread, short_turns
from opscope.base.notice import notice
from opscope.base.private_files import OwnSocket
from opscope.columns.trace_data import TraceData
from opscope.export.chrome.writer import write_chrome_trace
from opscope.launch.process_end import PARENT, fields_of
from opscope.recording.recorder import Recording
from opscope.torch_api.activities import ChosenActivities, has_devices
from opscope.torch_api.settings import ProfileSettings
from opscope.torch_api.steps import StepClock

DAEMON = "dynolog"
_HEAD = struct.Struct("=Q32s")
_PROCESS = struct.Struct("=iiq")
_ACTIVITIES = 2
_MAX_BYTES = 1 << 16
_MAX_ANCESTORS = 16
_CREDENTIALS = struct.Struct("3i")


class ForeignSenderError(Exception):
    """A message is from a user who is not trusted; its text is the user id."""


def address(name: str) -> str | bytes:
    """Address of an endpoint, for ``bind`` and ``sendto``."""
    folder = os.environ.get("KINETO_IPC_SOCKET_DIR", "")
    return f"{folder}/{name}" if folder else b"\0" + name.encode() + b"\0"


def registration(device: int, process: int, job: int) -> bytes:
    """Message that registers a process."""
    return message("ctxt", _PROCESS.pack(device, process, job))


def question(processes: Sequence[int], job: int) -> bytes:
    """Message that requests trace requests for the first process; the others are its ancestors."""
    head = _PROCESS.pack(_ACTIVITIES, len(processes), job)
    return message("req", head + struct.pack(f"={len(processes)}i", *processes))


def message(kind: str, content: bytes) -> bytes:
    """A datagram."""
    return _HEAD.pack(len(content), kind.encode()) + content


def read_message(data: bytes) -> tuple[str, bytes]:
    """Kind and content of a datagram."""
    if len(data) < _HEAD.size:
        raise ValueError("a message that is too short")
    size, kind = _HEAD.unpack_from(data)
    content = data[_HEAD.size :]
    if len(content) < size:
        raise ValueError("a message that is cut")
    return kind.partition(b"\0")[0].decode("ascii", "replace"), content[:size]


def open_endpoint(name: str | bytes) -> socket.socket:
    """A non-blocking socket with this name that receives the credentials of senders."""
    endpoint = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        endpoint.bind(name)
        endpoint.setblocking(False)
    except OSError:
        endpoint.close()
        raise
    return endpoint


def receive(endpoint: socket.socket, trusted: Collection[int]) -> tuple[str, bytes]:
    """The next message; ForeignSenderError if its sender is not in ``trusted``."""
    data, ancillary, _, _ = endpoint.recvmsg(_MAX_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
    user = next((_CREDENTIALS.unpack(payload)[1] for level, kind, payload in ancillary
                 if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
                 and len(payload) == _CREDENTIALS.size), None)  # fmt: skip
    if user not in trusted:
        raise ForeignSenderError("unknown" if user is None else str(user))
    return read_message(data)


def ancestors() -> list[int]:
    """This process and its ancestors, nearest first: a request may name any of them."""
    pids = [os.getpid()]
    while pids[-1] > 1 and len(pids) < _MAX_ANCESTORS:
        try:
            parent = int(fields_of(pids[-1])[PARENT])
        except (OSError, ValueError, IndexError):
            break
        if parent <= 0:
            break
        pids.append(parent)
    return pids


def job_id() -> int:
    """The scheduler's job id, from Kineto's source; 0 without one."""
    text = os.environ.get("SLURM_JOB_ID", "")
    return int(text) if text.isdecimal() else 0


_MAX_DURATION_S = 3600.0
_DEFAULT_S = 0.5
_FLAGS = {
    "PROFILE_REPORT_INPUT_SHAPES": "record_shapes",
    "PROFILE_PROFILE_MEMORY": "profile_memory",
    "PROFILE_WITH_STACK": "with_stack",
    "PROFILE_WITH_FLOPS": "with_flops",
    "PROFILE_WITH_MODULES": "with_modules",
}


@dataclass(frozen=True, kw_only=True)
class TraceRequest:
    """A requested trace."""

    path: str  # path of the Chrome trace, including the process id as in Kineto
    flags: dict[str, bool]  # arguments of a profile
    start_ns: int  # Unix time of the begin; 0: at once
    duration_s: float  # duration if ``steps`` is 0
    steps: int  # number of steps; 0: ``duration_s`` counts
    start_multiple: int  # begin at a multiple of this step number

    @classmethod
    def parse(cls, text: str) -> TraceRequest | None:
        """Read a configuration; None if it requests no trace."""
        options = dict(_lines(text))
        log_file = options.get("ACTIVITIES_LOG_FILE", "")
        if not log_file:
            return None
        milliseconds = float(options.get("ACTIVITIES_DURATION_MSECS", 0))
        seconds = milliseconds / 1e3 or float(options.get("ACTIVITIES_DURATION_SECS", _DEFAULT_S))
        return cls(
            path=_with_process(log_file),
            flags={
                argument: _is_on(options[key]) for key, argument in _FLAGS.items() if key in options
            },
            start_ns=int(options.get("PROFILE_START_TIME", 0)) * 1_000_000,
            duration_s=min(max(seconds, 0.001), _MAX_DURATION_S),
            steps=max(int(options.get("ACTIVITIES_ITERATIONS", 0)), 0),
            start_multiple=max(int(options.get("PROFILE_START_ITERATION_ROUNDUP", 1)), 1),
        )


def _lines(text: str) -> list[tuple[str, str]]:
    pairs = []
    for line in text.rstrip("\0").splitlines():
        key, equals, value = line.partition("#")[0].partition("=")
        if equals:
            pairs.append((key.strip(), value.strip()))
    return pairs


def _is_on(value: str) -> bool:
    return value.lower() in ("1", "true", "yes", "on")


def _with_process(path: str) -> str:
    """``trace.json`` becomes ``trace_4711.json``."""
    for suffix in (".pt.trace.json", ".json"):
        if path.endswith(suffix):
            return f"{path.removesuffix(suffix)}_{os.getpid()}{suffix}"
    return f"{path}_{os.getpid()}.json"


_PERIOD_S = 1.0
_ANSWER_TIMEOUT_S = 0.5
_STEPS_TIMEOUT_S = 600.0  # maximum wait for steps, after which recording ends


class DaemonClient:
    """A thread that polls once a second. Errors print at most one line."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._job = job_id()
        self._pids = ancestors()
        self._ending = threading.Event()
        self._open()
        self._is_registered = self._has_refused = False
        self._thread = OwnThread(self._run, self._ending.set)

    def _open(self) -> None:
        self._name = address(f"dynoconfigclient{uuid.uuid4()}")
        self._endpoint = OwnSocket(open_endpoint(self._name))

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
            self._exchange(registration(0, self._process, self._job), "ctxt")
            self._is_registered = True
        content = self._exchange(question(self._pids, self._job), "req")
        return TraceRequest.parse(content.decode("utf-8", "replace"))

    def _exchange(self, message: bytes, kind: str) -> bytes:
        endpoint = self._endpoint
        if endpoint.is_ours():
            endpoint.socket.sendto(message, address(DAEMON))
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
            answer_kind, content = receive(self._endpoint.socket, {0, os.getuid()})
        except ForeignSenderError as sender:
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
