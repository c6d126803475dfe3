"""Cause and wait of an event, from its name.

Waits are known functions: calls of the interpreter and its libraries that only wait, and of a
device's runtime. If C functions are not recorded, their time belongs to the standard library's
function that calls them.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from opscope.base.program_files import WAITING_FUNCTIONS
from opscope.columns.causes import Cause
from opscope.columns.codes import WaitsFor
from opscope.columns.ledger import RECORDER_PREFIX
from opscope.columns.names import STEP_PREFIX
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Values
from opscope.timeline.tree.frame_text import event_texts
from opscope.timeline.tree.line_nesting import own_times


class NamedCause(NamedTuple):
    """Cause of the own time of events with a name, if known, and what they wait for, if they do."""

    cause: Cause | None
    waits_for: WaitsFor


def _function(name: str) -> str:
    """Pattern for events of a function given as in ``queue.py:get``."""
    file, _, function = name.partition(":")
    return rf"(^|/){re.escape(file)}\(\d+\): {function}$"


_DEVICE = r"^(cuda|cu|hip)"
_BUILTIN = r"^<built-in (function|method) "
_METHOD = r"^<built-in method "
_TRANSFERS = (
    "read|readline|readlines|readinto|write|writelines|flush|fsync|fdatasync|send|sendall|recv|"
    "recv_into|recvfrom|accept|connect|poll|open|pread|pwrite"
)
_OF_DEVICES = r"(torch\._C\._?\w*)?(Stream|Event|_CudaStreamBase|_CudaEventBase)\b"
_LOCKS = r"(_thread\.\w+|_multiprocessing\.SemLock) object"

_NO = WaitsFor.NOTHING
_TABLE = (
    (Cause.COLLECTIVE, _NO, r"^(c10d::|gloo:|nccl:|mpi:|ucc:|record_param_comms$)"),
    # Collectives of torch.compile and tensor parallelism, and waiting for them.
    (Cause.COLLECTIVE, _NO, r"^(_?c10d_functional(_autograd)?|_dtensor)::"),
    (Cause.COLLECTIVE, _NO, r"(^|/)torch/distributed/\w*distributed_c10d\.py"),
    (Cause.COLLECTIVE, _NO, r"(^|/)torch/distributed/_functional_collectives\.py"),
    (Cause.LOADER, WaitsFor.PROCESS, r"^enumerate\(DataLoader\)#_MultiProcessingDataLoaderIter\."),
    (Cause.LOADER, _NO, r"^enumerate\(DataLoader\)#"),
    (Cause.IMPORT, _NO, r"^<frozen importlib\._bootstrap(_external)?>"),
    (Cause.COMPILATION, _NO, r"^_compile\.compile_inner$"),
    (Cause.COMPILATION, _NO, r"(^|/)torch/_dynamo/convert_frame\.py"),
    (Cause.COMPILATION, _NO, r"(^|/)torch/_inductor/compile_fx\.py\(\d+\): (_?compile|fx_)"),
    (Cause.BACKWARD, _NO, _BUILTIN + "run_backward of "),
    (Cause.MEMORY, _NO, _DEVICE + "(Malloc|Free|Mem(Alloc|Free|Create|Map|Unmap))"),
    (Cause.DEVICE, WaitsFor.OTHER, _DEVICE + r"(Device|Stream|Event|Ctx)Synchronize(_\w+)?$"),
    (
        Cause.DEVICE,
        WaitsFor.OTHER,
        r"^<built-in function _(cuda|xpu|mps|mtia)_(s|deviceS)ynchronize>$",
    ),
    (Cause.DEVICE, WaitsFor.OTHER, _METHOD + "synchronize of " + _OF_DEVICES),
    (Cause.DEVICE, _NO, _DEVICE + r"(\w*Synchronize(_|$)|Memcpy(_|HtoD$|DtoH$|DtoD$|$))"),
    (Cause.TIMER, WaitsFor.TIMER, _BUILTIN + "sleep( of |>)"),
    (Cause.IO, WaitsFor.READINESS, _BUILTIN + "select( of |>)"),
    (Cause.IO, WaitsFor.READINESS, _METHOD + r"(poll|control) of select\.\w+ object"),
    (Cause.IO, WaitsFor.READINESS, _function("selectors.py:select")),
    (Cause.IO, WaitsFor.READINESS, _function("zmq/sugar/poll.py:poll")),
    (Cause.IO, WaitsFor.TRANSFER, _METHOD + r"(accept|recv\w*) of _?socket\.socket object"),
    (Cause.IO, WaitsFor.TRANSFER, _function("socket.py:(accept|readinto)")),
    (Cause.IO, WaitsFor.TRANSFER, _function("multiprocessing/connection.py:(wait|_?poll|_recv)")),
    (Cause.IO, _NO, _BUILTIN + f"({_TRANSFERS})( of |>)"),
    (Cause.IO, _NO, r"(^|/)(zmq/sugar/poll|multiprocessing/connection)\.py\(\d+\): "),
    (Cause.IO, _NO, r"(^|/)socket\.py\(\d+\): \w+$"),
    (Cause.LOCK, WaitsFor.PROCESS, _BUILTIN + r"(waitpid|wait[34]?|sig(timed)?wait|pause)( of |>)"),
    (Cause.LOCK, WaitsFor.LOCK, _METHOD + "(acquire|__enter__|join) of " + _LOCKS),
    (Cause.LOCK, WaitsFor.LOCK, _METHOD + r"get of _queue\.SimpleQueue object"),
    *((Cause.LOCK, WaitsFor.LOCK, _function(name)) for name in WAITING_FUNCTIONS),
    # Hooks that recording requires.
    (Cause.PROFILER, _NO, "^" + re.escape(RECORDER_PREFIX)),
    (Cause.PROFILER, _NO, r"(^|/)torch/optim/optimizer\.py\(\d+\): _optimizer_step_code$"),
)
"""The first pattern that matches counts: at a name's begin, or at a part of a path."""

_IN_PATH = "(^|/)"
_OF_NAMES = re.compile("|".join(p for _, _, p in _TABLE if not p.startswith(_IN_PATH)))
_OF_PATHS = re.compile(
    "|".join(p.removeprefix(_IN_PATH) for _, _, p in _TABLE if p.startswith(_IN_PATH))
)


@lru_cache(maxsize=1 << 16)
def cause_of_name(name: str) -> NamedCause:
    """Cause and wait of the own time of events with this name."""
    if not _fits_any(name):
        return NamedCause(None, WaitsFor.NOTHING)
    return next(
        NamedCause(cause, waits_for)
        for cause, waits_for, pattern in _TABLE
        if re.search(pattern, name)
    )


def _fits_any(name: str) -> bool:
    """Whether any pattern may match; matching only at path parts takes a tenth of a search."""
    if _OF_NAMES.match(name) or _OF_PATHS.match(name):
        return True
    at = name.find("/")
    while at >= 0:
        if _OF_PATHS.match(name, at + 1):
            return True
        at = name.find("/", at + 1)
    return False


def waits_for_device(name: str) -> bool:
    """Whether a function only waits for a device."""
    known = cause_of_name(name)
    return known.cause is Cause.DEVICE and known.waits_for is WaitsFor.OTHER


def is_idle(name: str) -> bool:
    """Whether a function waits for any next event, as an idle event loop does."""
    return cause_of_name(name).waits_for is WaitsFor.READINESS


def waiting_ns(trace: TraceData) -> Values:
    """Own time of every event that waits, 0 for others. Shape (events,)."""
    label, texts = event_texts(trace)
    waits = np.array([cause_of_name(text).waits_for > 0 for text in texts], dtype=np.bool_)
    if not waits.any():
        return np.zeros(len(label), dtype=np.int64)
    return np.where(waits[label], own_times(trace), 0)


class TimeKind(str, Enum):
    """Kind of own time of a name."""

    WORK = "work"
    WAITING = "waiting"
    STEP = "step"  # the time of a step is that of the events in it
    RECORDING = "recording"  # a hook that recording requires


def time_kind(name: str) -> TimeKind:
    """Kind of own time of events with this name."""
    if name.startswith((STEP_PREFIX, "ProfilerStep*")):
        return TimeKind.STEP
    known = cause_of_name(name)
    if known.waits_for:
        return TimeKind.WAITING
    return TimeKind.RECORDING if known.cause is Cause.PROFILER else TimeKind.WORK
