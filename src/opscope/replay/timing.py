"""Measures the duration of an operator call with the recorder."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from opscope.recording.recorder import Recording
from opscope.recording.sources import RecordingOptions

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
