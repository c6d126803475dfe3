"""Measures the overhead of recording: nanoseconds per event of each kind, once per process.

Times small calls with and without recording. Each call has a known number of events of each kind,
so a fit gives the cost per kind. The ledger of each trace has the result.
"""

from __future__ import annotations

import _thread
import functools
import sys
import time
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

import opscope._native as _native
from opscope.columns.codes import Want
from opscope.columns.ledger import KIND_COST, CostKind
from opscope.recording.facts.coexistence import is_recording, is_torch_recording
from opscope.recording.sources import RecordingOptions, native_wants

section = _native.Section()  # one thread at a time measures

_ITERATIONS, _ROUNDS = 20, 7
_BEGINS_S = 0.25  # longest wait for the measuring thread to start
_FILE = "<opscope: calibration>"
"""File name of the timed functions; the recorder skips functions in opscope's own folder."""

_COST_OPTIONS = (
    Want.INNER_OPERATORS | Want.INPUTS | Want.OUTPUTS | Want.MEMORY | Want.OVERLOADS
    | Want.PYTHON | Want.FUNCTIONS | Want.OWN_FUNCTIONS
)  # fmt: skip
"""Options that change the cost of the timed calls."""

_CALLS = Want.PYTHON | Want.FUNCTIONS | Want.OWN_FUNCTIONS

_known: dict[Want, dict[str, float]] = {}


@dataclass(frozen=True)
class TimedCall:
    """A call to time."""

    repeat: Callable[[Iterable[int]], None]  # makes the call once for each item
    has: tuple[int, ...]  # events of each ``CostKind`` in one call, if everything is recorded


def cost_by_kind(options: RecordingOptions) -> dict[str, float]:
    """Ledger rows with the cost of one event of each kind; empty if it cannot be measured yet.

    Needs torch, and no running recording.
    """
    wants = _that_matter(native_wants(options))
    return section.run(functools.partial(_measure, wants))


def cost_of_an_operator_ns() -> float | None:
    """Cost of an operator without arguments; None if it cannot be measured yet."""
    rows = section.run(functools.partial(_measure, _that_matter(Want.OPERATORS)))
    return rows.get(KIND_COST + CostKind.OPERATOR.value)


@functools.cache
def _that_matter(wants: int) -> Want:
    return Want(wants) & _COST_OPTIONS


def _measure(wants: Want) -> dict[str, float]:
    """Measure on a new thread: this thread may have a torch mode or a default device set."""
    if wants in _known:
        return _known[wants]
    torch, result = sys.modules.get("torch"), dict[str, float]()
    if torch is None or is_recording() or is_torch_recording():
        return result
    claimed, done = _thread.allocate_lock(), _thread.allocate_lock()
    done.acquire()

    def run() -> None:
        if not claimed.acquire(blocking=False):
            return  # the caller has stopped waiting
        try:
            result.update(_solved(wants, timed_calls(torch)))
        except Exception:  # for example, this torch lacks one of these calls
            result.clear()
        finally:
            done.release()

    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:  # no room for a thread, or the interpreter is ending
        return result
    if not done.acquire(timeout=_BEGINS_S):
        if claimed.acquire(blocking=False):  # a thread without memory for its start never runs
            return result
        done.acquire()
    if result:
        _known[wants] = result
    return result


def _solved(wants: Want, calls: list[TimedCall]) -> dict[str, float]:
    """Fit the costs by least squares; a kind with a negative cost (noise) gets 0."""
    recorded = wants | Want.OPERATORS | Want.ANNOTATIONS
    with_ns, without_ns = [], []
    for _ in range(_ROUNDS):
        without_ns.append([_time(call) for call in calls])
        with_ns.append(_window(recorded).run(lambda: [_time(call) for call in calls]))
    cost_ns = np.min(with_ns, axis=0) - np.min(without_ns, axis=0)
    has = np.array([call.has for call in calls], dtype=np.float64)
    used = np.flatnonzero(_recorded(wants))
    # Weighted, because longer calls vary more.
    scale = 1 / np.sqrt(np.min(without_ns, axis=0))
    found = np.zeros(has.shape[1])
    while len(used):
        found[used] = np.linalg.lstsq(has[:, used] * scale[:, None], cost_ns * scale, rcond=None)[0]
        if (found[used] >= 0).all():
            break
        found[used[found[used] < 0]] = 0.0
        used = used[found[used] > 0]
    if not found.any():
        return {}
    costs = zip(CostKind, found.tolist(), strict=True)
    return {f"{KIND_COST}{kind.value}": round(ns, 1) for kind, ns in costs}


def _window(wants: Want) -> _native.Held:
    window = _native.reserve_window()
    begin = functools.partial(_native.open_window, int(wants), False, window)
    return _native.Held(begin, functools.partial(_native.discard_window, window))


def _recorded(wants: Want) -> list[bool]:
    """Whether a recording with ``wants`` has each kind, in the order of ``CostKind``."""
    arguments = bool(wants & (Want.INPUTS | Want.OUTPUTS))
    return [
        True, bool(wants & Want.INNER_OPERATORS), arguments, arguments,
        bool(wants & Want.MEMORY), bool(wants & _CALLS), bool(wants & Want.PYTHON),
    ]  # fmt: skip


def _time(call: TimedCall) -> float:
    """CPU time of one call in nanoseconds."""
    again, repeat = range(_ITERATIONS), call.repeat
    began = time.thread_time_ns()
    repeat(again)
    return (time.thread_time_ns() - began) / _ITERATIONS


def timed_calls(torch: Any) -> list[TimedCall]:
    """Calls with a known number of events of each kind."""
    x, y = (torch.ones(4, 4, dtype=torch.float32, device="cpu") for _ in range(2))
    few, many, cat = [x] * 2, [x] * 18, torch.cat

    def negate(again: Iterable[int]) -> None:
        for _ in again:
            _ = -x

    def add(again: Iterable[int]) -> None:
        total = x
        for _ in again:
            total *= y

    def select(again: Iterable[int]) -> None:
        for _ in again:
            _ = x[0]

    def cut(again: Iterable[int]) -> None:
        for _ in again:
            _ = x[1:]

    def transpose(again: Iterable[int]) -> None:
        for _ in again:
            _ = x.mT

    def cat_few(again: Iterable[int]) -> None:
        for _ in again:
            cat(few)

    def cat_many(again: Iterable[int]) -> None:
        for _ in again:
            cat(many)

    def call(again: Iterable[int]) -> None:
        for _ in again:
            nothing()

    def call_c(again: Iterable[int]) -> None:
        for _ in again:
            abs(1)

    nothing = _elsewhere(lambda: None)
    return [
        _call(negate, operator=1, tensor=1, allocation=2),
        _call(add, operator=1, tensor=2),
        _call(select, operator=1, inner_operator=1, tensor=2, scalar=5),
        _call(cut, operator=1, inner_operator=1, tensor=2, scalar=7),
        _call(transpose, operator=1, inner_operator=2, tensor=3, scalar=5),
        _call(cat_few, operator=1, tensor=2, scalar=1, allocation=2, c_call=1),
        _call(cat_many, operator=1, tensor=18, scalar=1, allocation=2, c_call=1),
        _call(call, python_call=1),
        _call(call_c, c_call=1),
    ]


def _call(repeat: Callable[[Iterable[int]], None], **has: int) -> TimedCall:
    """A call that ``has`` these events, by kind."""
    return TimedCall(_elsewhere(repeat), tuple(has.get(k.name.lower(), 0) for k in CostKind))


def _elsewhere(function: Any) -> Any:
    """A copy of the function whose file name is outside opscope's folder."""
    code = function.__code__.replace(co_filename=_FILE)
    return types.FunctionType(
        code, function.__globals__, function.__name__, None, function.__closure__
    )
