"""What recording itself costs here: measured once per process, part of every trace."""

from __future__ import annotations

import functools

from opscope import _native
from opscope.recording.neighbours import is_recording, is_torch_recording
from opscope.trace.codes import Want

_section = _native.Section()
_measured: dict[str, float] = {}


def recording_cost_ns() -> dict[str, float]:
    """Nanoseconds per span on this machine: ``span`` in all, ``floor`` of it torch's own part.

    The floor is a callback that does nothing. Measured with real spans in a window of their own,
    so it is put off while another window is open or torch's profiler runs; empty until then.
    """
    return _section.run(_measure)


def _measure() -> dict[str, float]:
    if not _measured and not is_recording() and not is_torch_recording():
        floor = round(_native.time_spans(empty_callback=True), 1)
        span = round(_window().run(functools.partial(_native.time_spans, empty_callback=False)), 1)
        _measured.update(floor=floor, span=span)
    return dict(_measured)


def _window() -> _native.Held:
    window = _native.reserve_window()
    wants = int(Want.OPERATORS | Want.ANNOTATIONS)

    def close() -> None:
        _native.discard_window(window)
        if not is_recording():
            _native.leave_thread()  # its spans made torch take this thread for profiled

    return _native.Held(functools.partial(_native.open_window, wants, False, window), close)
