"""What recording itself costs here: measured once per process, part of every trace.

At each event, and in between: below Python 3.12 a profile function, which is what complete stacks
are heard with, takes the interpreter off its fast path at every instruction.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable

import numpy as np

from opscope import _native
from opscope.recording.neighbours import is_recording, is_torch_recording
from opscope.recording.sources import RecordingOptions
from opscope.trace.codes import Want

section = _native.Section()
"""Where one thread at a time measures."""

_measured: dict[str, float] = {}
_cold: list[float] = []
_slowdowns: dict[str, float] = {}
_ROUNDS = 5
_LOOPS, _ITERATIONS = 15, 1_000


def recording_cost_ns() -> dict[str, float]:
    """Nanoseconds per span on this machine: ``span`` in all, ``floor`` of it torch's own part.

    The floor is a callback that does nothing. Measured with real spans in a window of their own,
    so it is put off while another window is open, or opens meanwhile, or torch's profiler runs;
    empty until then.
    """
    return section.run(_measure)


def _measure() -> dict[str, float]:
    if not _measured and is_quiet():
        # In turns, and the least of each: whatever else runs here comes and goes within a round.
        rounds = [_round() for _ in range(_ROUNDS)]
        floor, span = (round(min(times), 1) for times in zip(*rounds, strict=True))
        if not any(math.isnan(time_ns) for times in rounds for time_ns in times):
            _measured.update(floor=min(floor, span), span=span)  # a part is no more than the whole
    return dict(_measured)


def _round() -> tuple[float, float]:
    floor = _native.time_spans(empty_callback=True)
    return floor, window_for().run(functools.partial(_native.time_spans, empty_callback=False))


def cold_span_ns() -> float | None:
    """Nanoseconds per span where other work has emptied the caches in between, torch's part in it.

    Put off as the cost per span is; None until then.
    """
    return section.run(_measure_cold)


def _measure_cold() -> float | None:
    if not _cold and is_quiet():
        # In turns; the middle of what a span takes with and without being recorded.
        with_ns, without_ns = [], []
        for _ in range(_ROUNDS):
            without_ns.append(_native.time_cold_spans())
            with_ns.append(window_for().run(_native.time_cold_spans))
        if not any(math.isnan(time_ns) for time_ns in (*with_ns, *without_ns)):
            _cold.append(max(statistics.median(with_ns) - statistics.median(without_ns), 0.0))
    return _cold[0] if _cold else None


def slowdown_between_events(options: RecordingOptions) -> dict[str, float]:
    """How many times as long code takes between events, by what was recorded that does that.

    Measured with small loops without calls, in processor time: their geometric mean. Put off as the
    cost per span is; empty until then, and where no Python calls were recorded.
    """
    levels = {
        "Python and C calls": (options.stack, Want.PYTHON),
        "Python calls": (options.functions or options.own_functions, Want.FUNCTIONS),
    }
    for name, (is_on, want) in levels.items():
        if is_on:
            return section.run(functools.partial(_measure_slowdown, name, want))
    return {}


def _measure_slowdown(name: str, want: Want) -> dict[str, float]:
    if name not in _slowdowns:
        alone, recorded = [], []
        for _ in range(_LOOPS):
            if not is_quiet():  # also one that opened meanwhile: its hooks would be timed as none
                return {}
            alone.append(_time_loops())
            recorded.append(window_for(want).run(_time_loops))
        longer = np.min(recorded, axis=0) / np.maximum(np.min(alone, axis=0), 1)
        _slowdowns[name] = round(statistics.geometric_mean(longer.tolist()), 2)
    return {name: _slowdowns[name]}


def is_quiet() -> bool:
    """Whether nothing is recorded now, by whomever."""
    return not is_recording() and not is_torch_recording()


def _time_loops() -> list[int]:
    """Of arithmetic, of a list's items, of comparisons and of an attribute, nanoseconds."""
    return [_time(loop) for loop in (_arithmetic, _items, _comparisons, _attribute)]


def _time(loop: Callable[[], None]) -> int:
    began = time.thread_time_ns()
    loop()
    return time.thread_time_ns() - began


def _arithmetic() -> None:
    value = 0
    for number in range(_ITERATIONS):
        value = (value * 3 + number) & 1023


def _items() -> None:
    items = [0, 0]
    for _ in range(_ITERATIONS):
        items[1] += 1


def _comparisons() -> None:
    few = 0
    for number in range(_ITERATIONS):
        if number < few:
            few += 1


def _attribute() -> None:
    counter = _Counter()
    for _ in range(_ITERATIONS):
        counter.value += 1


class _Counter:
    value = 0


def window_for(
    wants: Want = Want.OPERATORS | Want.ANNOTATIONS, reserved: int | None = None
) -> _native.Held:
    """A window of the calling thread alone, of which nothing is kept once it is closed."""
    window = _native.reserve_window() if reserved is None else reserved

    def close() -> None:
        _native.discard_window(window)

    return _native.Held(functools.partial(_native.open_window, int(wants), False, window), close)
