"""The protocol between a traced process and Dynolog's daemon, as both projects publish it.

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

import os
import socket
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass

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
            with open(f"/proc/{pids[-1]}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
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
