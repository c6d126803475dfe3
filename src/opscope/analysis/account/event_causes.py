"""Which cause the own time of every event has, by what the event is and what it runs in."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.causes import Cause, is_any
from opscope.analysis.time_kind import TimeKind, time_kind
from opscope.trace.schema import EventKind, RecordScope
from opscope.trace.trace import Trace
from opscope.tree.ancestry import nearest_ancestor
from opscope.tree.frame_text import event_texts, is_python

Values = npt.NDArray[np.int64]
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

_SPREADS = (Cause.COLLECTION, Cause.IMPORT, Cause.COMPILATION, Cause.COLLECTIVE, Cause.LOADER)
"""Causes of an event that are those of what runs in it too, as far as the sets below say."""

_WAITS = (Cause.LOCK, Cause.IO, Cause.TIMER)


def causes_of_events(trace: Trace, around: Values) -> Causes:
    """The cause of the own time of every event, ``AS_AROUND`` where it has none of its own.

    Args:
        trace: any.
        around: the span directly around each event by time, -1 for none.
    """
    label, texts = event_texts(trace)
    kind = trace.events["kind"]
    by_name = np.array([_of_name(text) for text in texts] or [AS_AROUND], dtype=np.int8)
    cause = _of_kinds(trace, around)
    named = by_name[label] if len(label) else by_name[:0]
    cause = np.where(named != AS_AROUND, named, cause)
    cause[kind == EventKind.GC_PAUSE] = Cause.COLLECTION
    return _with_surroundings(cause, kind, around)


def waits(causes: npt.NDArray[np.signedinteger[Any]]) -> npt.NDArray[np.bool_]:
    """Whether a thread with this cause is expected to be off its processor."""
    return is_any(causes, (Cause.LOADER, Cause.LOCK, Cause.IO, Cause.TIMER, Cause.COLLECTIVE))


def _of_name(text: str) -> int:
    for pattern, cause in _BY_NAME:
        if pattern.search(text):
            return cause
    kind = time_kind(text)
    if kind is TimeKind.RECORDING:
        return Cause.PROFILER
    return Cause.LOCK if kind is TimeKind.WAITING else AS_AROUND


def _of_kinds(trace: Trace, around: Values) -> Causes:
    """By kind: nodes of autograd and C functions that call operators are torch around them.

    Operators that call others may still do most of the work: ``aten::mm`` calls helpers first.
    """
    events = trace.events
    kind = events["kind"]
    is_operator = kind == EventKind.OPERATOR
    calls_operators = np.zeros(len(kind), dtype=np.bool_)
    inner = around[is_operator]
    calls_operators[inner[inner >= 0]] = True
    cause = np.full(len(kind), AS_AROUND, dtype=np.int8)
    cause[is_python(events)] = Cause.PYTHON
    cause[np.isin(kind, (EventKind.TASK_RUN, EventKind.COMPILED_GRAPH))] = Cause.PYTHON
    cause[(kind == EventKind.C_CALL) & calls_operators] = Cause.DISPATCH
    cause[kind == EventKind.RUNTIME_CALL] = Cause.DISPATCH
    cause[is_operator] = Cause.OPERATOR
    is_node = events["scope"] == RecordScope.BACKWARD_FUNCTION
    cause[is_operator & (_evaluates_nodes(trace) | (is_node & calls_operators))] = Cause.DISPATCH
    return cause


def _evaluates_nodes(trace: Trace) -> npt.NDArray[np.bool_]:
    """The autograd engine's own spans around each node."""
    names = [text.startswith("autograd::engine::") for text in trace.names]
    found: npt.NDArray[np.bool_] = np.array([*names, False])[trace.events["name"]]
    return found


def _with_surroundings(cause: Causes, kind: npt.NDArray[np.uint8], around: Values) -> Causes:
    """What runs in an import is part of it, waiting in a loader is waiting for it, and so on."""
    inside = {one: nearest_ancestor(around, cause == one) >= 0 for one in _SPREADS}
    for one in (Cause.COMPILATION, Cause.IMPORT, Cause.COLLECTION):
        cause[inside[one] & (cause != Cause.COLLECTION)] = one
    waiting = is_any(cause, _WAITS)
    cause[waiting & inside[Cause.LOADER]] = Cause.LOADER
    passive = waiting | is_any(cause, (Cause.PYTHON, Cause.DISPATCH))
    cause[passive & inside[Cause.COLLECTIVE]] = Cause.COLLECTIVE
    # Annotations and steps are as the function that they are in.
    known = nearest_ancestor(around, cause != AS_AROUND).astype(np.int64)
    bare = (cause == AS_AROUND) & (known >= 0)
    taken = cause[known[bare]]
    cause[bare] = np.where(taken == Cause.OPERATOR, Cause.DISPATCH, taken)
    return cause
