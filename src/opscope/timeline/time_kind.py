"""Whether the time of a name is work: waiting, steps and our own hooks never rank as that.

What waits is known by what it is: calls of the interpreter and of its libraries that do nothing
until something else has happened, and those of a device's runtime. Where C functions are not
recorded, their time is that of the function of Python's library that calls them.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from opscope.base.program_files import WAITING_FUNCTIONS
from opscope.columns.ledger_rows import RECORDER_PREFIX
from opscope.columns.step_names import STEP_PREFIX
from opscope.columns.trace_data import TraceData
from opscope.timeline.tree.frame_text import event_texts
from opscope.timeline.tree.own_time import own_times


class TimeKind(str, Enum):
    """What the own time of a name is."""

    WORK = "work"
    WAITING = "waiting"
    STEP = "step"  # the time of a step is that of what runs in it
    RECORDING = "recording"  # a hook that recording needs


def _function(name: str) -> str:
    """A pattern for events of a function given as in ``queue.py:get``."""
    file, _, function = name.partition(":")
    return rf"(^|/){re.escape(file)}\(\d+\): {function}$"


_FOR_DEVICE = (
    r"^(cuda|cu|hip)(Device|Stream|Event|Ctx)Synchronize(_\w+)?$|"
    r"^<built-in function _(cuda|xpu|mps|mtia)_(synchronize|deviceSynchronize)>$|"
    r"^<built-in method synchronize of (torch\._C\._?\w*)?(Stream|Event|_CudaStreamBase|"
    r"_CudaEventBase)\b"
)

_WAITING = re.compile(
    "|".join(
        (
            # C functions, as Python writes them.
            r"^<built-in (function|method) (sleep|select|waitpid|wait[34]?|sigwait|sigtimedwait|"
            r"pause)( of |>)",
            r"^<built-in method (acquire|__enter__|join) of (_thread\.\w+|"
            r"_multiprocessing\.SemLock) object",
            r"^<built-in method (get|poll|select|control) of (_queue\.SimpleQueue|"
            r"select\.\w+) object",
            r"^<built-in method (accept|recv\w*) of _?socket\.socket object",
            # Functions of libraries.
            *(_function(name) for name in WAITING_FUNCTIONS),
            # Loading data in other processes, and the runtime of a device.
            r"^enumerate\(DataLoader\)#_MultiProcessingDataLoaderIter\.",
            _FOR_DEVICE,
        )
    )
)

_HOOK = re.compile(r"(^|/)torch/optim/optimizer\.py\(\d+\): _optimizer_step_code$")


@lru_cache(maxsize=1 << 16)
def time_kind(name: str) -> TimeKind:
    """What the own time of events of this name is."""
    if name.startswith((STEP_PREFIX, "ProfilerStep*")):
        return TimeKind.STEP
    if _WAITING.search(name):
        return TimeKind.WAITING
    is_ours = name.startswith(RECORDER_PREFIX) or _HOOK.search(name) is not None
    return TimeKind.RECORDING if is_ours else TimeKind.WORK


def waiting_ns(trace: TraceData) -> npt.NDArray[np.int64]:
    """Own time of every event that waits, 0 for others. Shape (events,)."""
    label, texts = event_texts(trace)
    waits = np.array([time_kind(text) is TimeKind.WAITING for text in texts], dtype=np.bool_)
    if not waits.any():
        return np.zeros(len(label), dtype=np.int64)
    return np.where(waits[label], own_times(trace), 0)


def waits_for_device(name: str) -> bool:
    """Whether it does nothing until a device is done."""
    return _DEVICE.search(name) is not None


def is_idle(name: str) -> bool:
    """Whether it waits for whatever comes next, as a loop of events does that has nothing to do."""
    return time_kind(name) is TimeKind.WAITING and _IDLE.search(name) is not None


_DEVICE = re.compile(_FOR_DEVICE)
_IDLE = re.compile(r"of select\.\w+ object|<built-in function select>|selectors\.py|zmq/sugar/poll")
