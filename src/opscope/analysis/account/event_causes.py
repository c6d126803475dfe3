"""Which cause the own time of every event has, by what the event is and what it runs in."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.analysis.account.causes import Cause, is_any
from opscope.columns.trace_data import TraceData
from opscope.timeline.time_kind import TimeKind, time_kind
from opscope.timeline.tree.frame_text import event_texts

Around = npt.NDArray[np.signedinteger[Any]]
Causes = npt.NDArray[np.int8]

AS_AROUND = -1
"""An annotation's own time, and a step's, is that of whatever it is in."""

_DEVICE_CALL = r"^(cuda|cu|hip)"
_BUILTIN = r"^<built-in (function|method) "
_TRANSFERS = (
    "read|readline|readlines|readinto|write|writelines|flush|fsync|fdatasync|send|sendall|recv|"
    "recv_into|recvfrom|accept|connect|select|poll|open|pread|pwrite"
)

_BY_NAME: tuple[tuple[re.Pattern[str], Cause], ...] = tuple(
    (re.compile(pattern), cause)
    for pattern, cause in (
        (r"^(c10d::|gloo:|nccl:|mpi:|ucc:|record_param_comms$)", Cause.COLLECTIVE),
        # Collectives that torch.compile and tensor parallelism call, and waiting for them.
        (r"^(_?c10d_functional(_autograd)?|_dtensor)::", Cause.COLLECTIVE),
        (r"(^|/)torch/distributed/\w*distributed_c10d\.py", Cause.COLLECTIVE),
        (r"(^|/)torch/distributed/_functional_collectives\.py", Cause.COLLECTIVE),
        (r"^enumerate\(DataLoader\)#", Cause.LOADER),
        (r"^<frozen importlib\._bootstrap(_external)?>", Cause.IMPORT),
        (r"^_compile\.compile_inner$|(^|/)torch/_dynamo/convert_frame\.py", Cause.COMPILATION),
        (r"(^|/)torch/_inductor/compile_fx\.py\(\d+\): (_?compile|fx_)", Cause.COMPILATION),
        (_BUILTIN + "run_backward of ", Cause.BACKWARD),
        (_DEVICE_CALL + "(Malloc|Free|Mem(Alloc|Free|Create|Map|Unmap))", Cause.MEMORY),
        (_DEVICE_CALL + r"\w*Synchronize(_|$)", Cause.DEVICE),
        (_DEVICE_CALL + r"Memcpy(_|HtoD$|DtoH$|DtoD$|$)", Cause.DEVICE),
        (_BUILTIN + "sleep( of |>)", Cause.TIMER),
        (_BUILTIN + f"({_TRANSFERS})( of |>)", Cause.IO),
        (r"(^|/)(selectors\.py\(\d+\): select|socket\.py\(\d+\): \w+)$", Cause.IO),
        (r"(^|/)(zmq/sugar/poll\.py|multiprocessing/connection\.py)\(\d+\): ", Cause.IO),
    )
)
"""What says its cause by its name alone; the first that fits."""


def causes_of_events(trace: TraceData, around: Around) -> Causes:
    """The cause of the own time of every event, ``AS_AROUND`` where it has none of its own.

    Args:
        trace: any.
        around: the span directly around each event by time, -1 for none.
    """
    label, texts = event_texts(trace)
    events, names = trace.events, trace.names
    by_label = np.array([_of_name(text) for text in texts] or [AS_AROUND], dtype=np.int8)
    is_engine = [text.startswith("autograd::engine::") for text in names]
    kind, scope, name = (np.ascontiguousarray(events[one]) for one in ("kind", "scope", "name"))
    return _native.causes_of_events(
        kind,
        scope,
        name,
        label,
        np.ascontiguousarray(around, dtype=np.int32),
        by_label,
        np.array([*is_engine, False]),
    )


def waits(causes: npt.NDArray[np.signedinteger[Any]]) -> npt.NDArray[np.bool_]:
    """Whether a thread with this cause is expected to be off its processor."""
    waiting = (
        Cause.LOADER, Cause.LOCK, Cause.IO, Cause.TIMER, Cause.COLLECTIVE, Cause.BACKWARD,
    )  # fmt: skip
    return is_any(causes, waiting)


@lru_cache(maxsize=1 << 16)
def _of_name(text: str) -> int:
    for pattern, cause in _BY_NAME:
        if pattern.search(text):
            return cause
    kind = time_kind(text)
    if kind is TimeKind.RECORDING:
        return Cause.PROFILER
    return Cause.LOCK if kind is TimeKind.WAITING else AS_AROUND
