"""What recording itself costs here: measured once per process, part of every trace."""

from __future__ import annotations

from opscope import _native
from opscope.process_lock import process_lock
from opscope.recording.neighbours import is_recording, is_torch_recording

_lock = process_lock()
_measured: dict[str, float] = {}


def recording_cost_ns() -> dict[str, float]:
    """Nanoseconds per span on this machine: ``span`` in all, ``floor`` of it torch's own part.

    The floor is a callback that does nothing. Measured with real spans in a window of their own,
    so it is put off while another window is open or torch's profiler runs; empty until then.
    """
    with _lock:
        if not _measured and not is_recording() and not is_torch_recording():
            floor = round(_native.time_spans(empty_callback=True), 1)
            wants = _native.WANTS["OPERATORS"] | _native.WANTS["ANNOTATIONS"]
            window = _native.open_window(wants, all_threads=False)
            try:
                span = round(_native.time_spans(empty_callback=False), 1)
            finally:
                _native.discard_window(window)
                if not is_recording():
                    _native.leave_thread()  # its spans made torch take this thread for profiled
            _measured.update(floor=floor, span=span)
        return dict(_measured)
