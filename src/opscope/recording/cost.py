"""What recording itself costs here: measured once per process, part of every trace.

At each event, and in between: below Python 3.12 a profile function, which is what complete stacks
are heard with, takes the interpreter off its fast path at every instruction.
"""

from __future__ import annotations

import functools
import math
import time

from opscope import _native
from opscope.recording.neighbours import is_recording, is_torch_recording
from opscope.recording.sources import RecordingOptions
from opscope.trace.codes import Want

_section = _native.Section()
_measured: dict[str, float] = {}
_slowdowns: dict[str, float] = {}
_ROUNDS = 5
_LOOPS, _ITERATIONS = 25, 2_000


def recording_cost_ns() -> dict[str, float]:
    """Nanoseconds per span on this machine: ``span`` in all, ``floor`` of it torch's own part.

    The floor is a callback that does nothing. Measured with real spans in a window of their own,
    so it is put off while another window is open, or opens meanwhile, or torch's profiler runs;
    empty until then.
    """
    return _section.run(_measure)


def _measure() -> dict[str, float]:
    if not _measured and _is_quiet():
        # In turns, and the least of each: whatever else runs here comes and goes within a round.
        rounds = [_round() for _ in range(_ROUNDS)]
        floor, span = (round(min(times), 1) for times in zip(*rounds, strict=True))
        if not any(math.isnan(time_ns) for times in rounds for time_ns in times):
            _measured.update(floor=min(floor, span), span=span)  # a part is no more than the whole
    return dict(_measured)


def _round() -> tuple[float, float]:
    floor = _native.time_spans(empty_callback=True)
    return floor, _window().run(functools.partial(_native.time_spans, empty_callback=False))


def slowdown_between_events(options: RecordingOptions) -> dict[str, float]:
    """How many times as long code takes between events, by what was recorded that does that.

    Measured with a loop without calls, in processor time. Put off as the cost per span is; empty
    until then, and where no Python calls were recorded.
    """
    levels = {
        "Python and C calls": (options.stack, Want.PYTHON),
        "Python calls": (options.functions or options.own_functions, Want.FUNCTIONS),
    }
    for name, (is_on, want) in levels.items():
        if is_on:
            return _section.run(functools.partial(_measure_slowdown, name, want))
    return {}


def _measure_slowdown(name: str, want: Want) -> dict[str, float]:
    if name not in _slowdowns:
        alone, recorded = [], []
        for _ in range(_LOOPS):
            if not _is_quiet():  # also one that opened meanwhile: its hooks would be timed as none
                return {}
            alone.append(_time_loop())
            recorded.append(_window(want).run(_time_loop))
        _slowdowns[name] = round(min(recorded) / max(min(alone), 1), 2)
    return {name: _slowdowns[name]}


def _is_quiet() -> bool:
    return not is_recording() and not is_torch_recording()


def _time_loop() -> int:
    began, value = time.thread_time_ns(), 0
    for number in range(_ITERATIONS):
        value = (value * 3 + number) & 1023
    return time.thread_time_ns() - began


def _window(wants: Want = Want.OPERATORS | Want.ANNOTATIONS) -> _native.Held:
    window = _native.reserve_window()

    def close() -> None:
        _native.discard_window(window)
        if not is_recording():
            _native.leave_thread()  # its spans made torch take this thread for profiled

    return _native.Held(functools.partial(_native.open_window, int(wants), False, window), close)
