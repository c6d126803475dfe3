"""Every distinct operator call of a trace, run again on new tensors and timed with the recorder."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.overloads import registered_overloads
from opscope.columns.schema import EventKind, RecordScope, Role
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.errors import OpscopeError, UsageError
from opscope.recording.recorder import Recording
from opscope.recording.sources import RecordingOptions
from opscope.replay.fresh_arguments import FreshArguments, RefusedError
from opscope.timeline.signatures import first_of_each, mix
from opscope.timeline.tree.event_tree import events_named, nearest_ancestor

Mask = npt.NDArray[np.bool_]
_FLAT = {
    "tensors": ("argument", "element", "role", "dtype", "device_type", "layout"),
    "scalars": ("argument", "type", "value"),
}
_INPUTS = (Role.INPUT, Role.INPUT_PART)


@dataclass(frozen=True)
class RecordedCall:
    """Calls of one operator with equal tensor shapes, types and scalars."""

    name: str  # such as ``aten::add``
    overload: str | None  # ``""`` without an overload name; None if not recorded
    signature: int  # hash of name and arguments, see `call_signatures`
    events: npt.NDArray[np.int64]  # rows in ``events``
    recorded_ns: int  # total duration, including inner calls


class Calls:
    """Operator calls of a trace."""

    def __init__(self, trace: TraceData) -> None:
        self._trace = trace
        events = trace.events
        is_call = (events["kind"] == EventKind.OPERATOR) & (events["scope"] == RecordScope.FUNCTION)
        self._is_left: Mask = is_call & events_named(trace, _has_namespace)
        self._signature = call_signatures(trace)
        self._knows_overloads = bool(trace.metadata.get("options", {}).get("overloads"))

    def outermost(self) -> Iterator[RecordedCall]:
        """Distinct calls that no other remaining call contains."""
        events = self._trace.events
        enclosing = nearest_ancestor(events["parent"], self._is_left)
        rows = np.flatnonzero(self._is_left & (enclosing < 0))
        group, first = first_of_each(self._signature[rows])
        order = np.argsort(group, kind="stable")
        borders = np.searchsorted(group[order], np.arange(1, len(first)))
        for members in np.split(order, borders) if len(first) else ():
            call_events = rows[members]
            yield RecordedCall(
                self._trace.event_name(int(call_events[0])),
                self._overload(int(call_events[0])),
                int(self._signature[call_events[0]]),
                call_events,
                int(events["duration_ns"][call_events].sum()),
            )

    def _overload(self, event: int) -> str | None:
        overload = self._trace.names[self._trace.events["overload"][event]]
        return overload if overload or self._knows_overloads else None

    def leave_out(self, call: RecordedCall) -> bool:
        """Remove this call; its inner calls become outermost. False if it has none."""
        self._is_left[call.events] = False
        is_removed = np.zeros(len(self._is_left), dtype=np.bool_)
        is_removed[call.events] = True
        parents = nearest_ancestor(self._trace.events["parent"], is_removed)
        return bool(np.any(self._is_left & (parents >= 0)))


def _has_namespace(text: str) -> bool:
    """Whether a name looks like an operator's."""
    namespace, separator, name = text.partition("::")
    return bool(separator) and namespace.isidentifier() and name.isidentifier()


def call_signatures(trace: TraceData) -> npt.NDArray[np.uint64]:
    """64-bit hash of each event's name and arguments. Shape (events,).

    Tensors count by shape, strides, type and device; scalars by value.
    """
    events = trace.events
    pair = (events["name"].astype(np.int64) << 32) | (events["overload"] + 1)
    total = mix(pair)
    for name, columns in _FLAT.items():
        table = trace.table(name)
        rows = np.flatnonzero(np.isin(table["role"], _INPUTS))
        value = np.zeros(len(rows), dtype=np.uint64)
        for column in columns:
            value = mix(value ^ mix(table[column][rows]))
        if name == "tensors":
            value = mix(value ^ _list_hashes(table, "sizes", rows))
            value = mix(value + _list_hashes(table, "strides", rows))
        np.add.at(total, table["event"][rows], value)
    return total


def _list_hashes(table: Table, column: str, rows: npt.NDArray[np.int64]) -> Any:
    """Hash of each row's integers in a ragged column. Shape (rows,)."""
    lists = table.lists(column)
    count = np.diff(lists.offsets)
    owner = np.repeat(np.arange(len(count)), count)
    index = np.arange(len(owner)) - np.repeat(lists.offsets[:-1] - lists.offsets[0], count)
    values = lists.values[lists.offsets[0] : lists.offsets[-1]] if len(count) else lists.values[:0]
    total = np.zeros(len(count), dtype=np.uint64)
    np.add.at(total, owner, mix(mix(values) ^ mix(index)))
    return total[rows]


WARMUPS = 3
TIME_LIMIT_S = 1.0
"""Slow calls are repeated less often than requested."""

FEWEST = 3
LONGEST_S = 5.0
"""Stop before ``FEWEST`` calls if these take longer than this."""

_OPTIONS = RecordingOptions(gc_pauses=False, annotations=False)


def measure(name: str, call: Callable[[], Any], repeat: int) -> int:
    """Median duration in nanoseconds of the operator ``name`` over ``repeat`` calls of ``call``.

    The recorder measures it, like the calls of the trace, so the time of the Python call is not
    included.
    """
    deadline_s = time.perf_counter() + TIME_LIMIT_S
    for _ in range(WARMUPS):
        call()
        if time.perf_counter() > deadline_s:
            break
    recording = Recording(_OPTIONS)
    recording.start()
    try:
        began_s = time.perf_counter()
        for count in range(1, repeat + 1):
            call()
            elapsed_s = time.perf_counter() - began_s
            if elapsed_s > (TIME_LIMIT_S if count >= FEWEST else LONGEST_S):
                break
    finally:
        recording.stop()
    trace = recording.trace
    events = trace.events
    is_called = (events["parent"] < 0) & (events["name"] == trace.names.find(name))
    durations = events["duration_ns"][np.flatnonzero(is_called)].tolist()
    return int(statistics.median(durations)) if durations else 0


_REFUSED_NAMESPACES = {
    **dict.fromkeys(
        (
            "c10d",
            "_c10d_functional",
            "_c10d_functional_autograd",
            "c10d_functional",
            "_dtensor",
            "symm_mem",
            "rpc",
        ),
        "it communicates with other processes",
    ),
    "profiler": "it belongs to a profiler",
    "debugprims": "it reads or writes files",
}
_FILES = ("filename", "file_name", "path")
"""Names of arguments that are files: a trace must not choose which files are read or written."""


@dataclass(frozen=True)
class ReplayedCall:
    """One distinct call."""

    name: str  # operator with its overload, such as ``aten::add.Tensor``
    input_shapes: list[Any]  # shape of each argument; ``[]`` for other values
    calls: int  # number of recorded calls
    recorded_ns: int | None  # mean duration in the recording; None if the file has no times
    replayed_ns: int  # median duration now


@dataclass(frozen=True)
class RefusedCall:
    """One distinct call that was not replayed."""

    name: str  # operator
    calls: int  # number of recorded calls
    reason: str  # a sentence, whose subject is usually the operator
    has_inner: bool  # whether it called other operators, which were replayed if possible


@dataclass(frozen=True)
class Replay:
    """Result of :func:`replay`."""

    replayed: list[ReplayedCall]  # sorted by total recorded time, or replayed time without times
    refused: list[RefusedCall]


def replay(trace: TraceData, *, repeat: int = 10, device: str | None = None) -> Replay:
    """Repeat every distinct call of ``trace`` on fresh tensors, and time it.

    Replays the outermost calls of operators registered with this torch, with recorded shapes,
    strides, element types and scalars. Gradients are not recorded. Tensors have new values:
    floating point is random, integers are zero.

    Args:
        trace: a trace with arguments of operators.
        repeat: number of timed calls each.
        device: replaces all recorded devices, such as ``cpu``.

    Raises:
        UsageError: the trace has no calls, or none can be replayed; the message has the reason.
    """
    import torch

    calls, arguments = Calls(trace), FreshArguments(trace, device)
    has_times = trace.has_times
    replayed: dict[int, ReplayedCall] = {}
    refused: dict[int, RefusedCall] = {}
    has_new_calls = True
    while has_new_calls:
        has_new_calls = False
        for call in list(calls.outermost()):
            if call.signature in replayed:  # found again inside a refused call
                replayed[call.signature] = _counted(replayed[call.signature], call, has_times)
                continue
            try:
                with torch.no_grad():
                    result = _replay(call, arguments, repeat)
                replayed[call.signature] = _counted(result, call, has_times)
            except RefusedError as error:
                has_inner = calls.leave_out(call)
                has_new_calls |= has_inner
                earlier = refused.get(call.signature)
                count = len(call.events) + (earlier.calls if earlier else 0)
                refused[call.signature] = RefusedCall(call.name, count, str(error), has_inner)
    if not replayed:
        raise UsageError(_why_nothing(trace, list(refused.values())))
    in_order = sorted(replayed.values(), key=_cost, reverse=True)
    return Replay(in_order, list(refused.values()))


def _counted(replayed_call: ReplayedCall, call: RecordedCall, has_times: bool) -> ReplayedCall:
    recorded_ns = call.recorded_ns // len(call.events) if has_times else None
    return replace(replayed_call, calls=len(call.events), recorded_ns=recorded_ns)


def _cost(call: ReplayedCall) -> int:
    return call.calls * (call.replayed_ns if call.recorded_ns is None else call.recorded_ns)


def _replay(call: RecordedCall, arguments: FreshArguments, repeat: int) -> ReplayedCall:
    namespace = call.name.partition("::")[0]
    if namespace in _REFUSED_NAMESPACES:
        raise RefusedError(_REFUSED_NAMESPACES[namespace])
    event = int(call.events[0])
    overload, function = _callable(call, event, arguments)
    with _failures_refused():  # memory may be exhausted by later calls
        replayed_ns = measure(call.name, function, repeat)
    full_name = f"{call.name}.{overload}" if overload else call.name
    return ReplayedCall(full_name, arguments.shapes(event), 0, None, replayed_ns)


def _callable(
    call: RecordedCall, event: int, arguments: FreshArguments
) -> tuple[str, Callable[[], Any]]:
    registered = registered_overloads(call.name)
    if not registered:
        raise RefusedError("this torch has no operator of that name")
    # If the overload was not recorded, use the first one that accepts the arguments.
    is_registered = call.overload is not None and call.overload in registered
    candidates = [call.overload or ""] if is_registered else list(registered)
    problem = ""
    for overload in candidates:
        try:
            return overload, _bound(call.name, overload, event, arguments)
        except RefusedError as error:
            problem = problem or str(error)
    raise RefusedError(problem)


def _bound(name: str, overload: str, event: int, arguments: FreshArguments) -> Callable[[], Any]:
    """The overload with new arguments, after one call that succeeded."""
    import torch

    schema = torch._C._get_schema(name, overload)
    if any(argument.name in _FILES for argument in schema.arguments):
        raise RefusedError("it reads or writes files")
    with _failures_refused("its arguments cannot be created"):
        positional, keywords = arguments.of(event, schema)
    namespace, _, operator = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), operator)
    function = getattr(packet, overload or "default")
    with _failures_refused():
        function(*positional, **keywords)
    return lambda: function(*positional, **keywords)


@contextmanager
def _failures_refused(what: str = "it fails") -> Iterator[None]:
    """Turn any error of torch into a reason to refuse the call: traces may contain any call."""
    try:
        yield
    except (RefusedError, OpscopeError):
        raise
    except Exception as error:
        message = str(error).strip().partition("\n")[0].partition(". ")[0][:120]
        raise RefusedError(f"{what}: {message or type(error).__name__}") from error


def _why_nothing(trace: TraceData, refused: list[RefusedCall]) -> str:
    if not refused:
        return "There is no operator to replay. Record with --shapes (record_shapes=True)."
    if not len(trace.table("tensors")) and not len(trace.table("scalars")):
        return (
            "The arguments of operators were not recorded. Record with --shapes "
            "(record_shapes=True)."
        )
    reasons = list(dict.fromkeys(f"{call.name}: {call.reason}" for call in refused))
    shown = "; ".join(reasons[:5])
    return (
        f"None of the {len(refused)} distinct operator calls can be replayed ({shown}). Replay a "
        "trace of operators that this torch has, on a machine with the devices they ran on or "
        "with --device."
    )
