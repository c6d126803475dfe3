"""The devices panel of the report: utilisation and causes of idle time."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.analysis.device_use.device_use import DevicesUse, DeviceUse, find_device_use
from opscope.analysis.device_use.owners import StreamUse
from opscope.analysis.memory.counters import ReservedMemory
from opscope.base.quantity_text import bytes_text, share_text, time_text
from opscope.columns.labels import device_title
from opscope.columns.trace_data import TraceData
from opscope.report.packing import shown
from opscope.timeline.period import Which

MOST_STREAMS = 50
"""Maximum number of streams shown for a device, the busiest first."""
MOST_MODULES = 200

_STREAM_HEADING = (
    "Stream", "Work", "Busy", "Launches", "Wait for", "One of ten", "The longest",
    "Wait at once", "At most",
)  # fmt: skip
_MODULE_HEADING = ("Module", "Together", "Forward", "Backward", "In CUDA graphs")
_UNKNOWN = "not known"


def device_section(trace: TraceData, which: Which | str) -> dict[str, Any]:
    """Results of `opscope summary --gpu`, for a period with device activity."""
    use = find_device_use(trace, which)
    advice = use.advice()
    notes = list(use.notes)
    if len(use.modules) > MOST_MODULES:
        left_out = len(use.modules) - MOST_MODULES
        notes.append(f"{left_out:,} more modules: opscope summary --gpu shows all")
    return {
        "wall": max(use.wall_ns, 1),
        "devices": [_device(device, use, advice.get(device.device, "")) for device in use.devices],
        "modules": _modules(use),
        "notes": [shown(note) for note in notes],
    }


def _device(device: DeviceUse, use: DevicesUse, advice: str) -> dict[str, Any]:
    parts = {
        "computing": device.computing_ns,
        "communicating": device.communicating_ns,
        "copying": device.copying_ns,
    }
    return {
        "name": device_title(device.device),
        "work": device.work,
        "busy": device.busy_ns,
        "parts": [
            {"name": name, "time": time_ns, "detail": ""}
            for name, time_ns in parts.items()
            if time_ns
        ],
        "idle": [
            {"name": cause.title, "time": time_ns, "detail": cause.meaning}
            for cause, time_ns in sorted(device.idle_ns.items(), key=lambda one: -one[1])
        ],
        "gaps": device.gaps,
        "longestGap": device.longest_gap_ns,
        "sentences": [advice] * bool(advice) + _notes(device, use),
        "streams": {
            "heading": _STREAM_HEADING,
            "rows": [_stream(stream, use) for stream in device.streams[:MOST_STREAMS]],
        },
    }


def _notes(device: DeviceUse, use: DevicesUse) -> list[str]:
    notes = [
        f"{share_text(hidden_ns / time_ns)} of {what} overlapped with computing."
        for what, time_ns, hidden_ns in (
            ("communication", device.communicating_ns, device.hidden_communicating_ns),
            ("copying", device.copying_ns, device.hidden_copying_ns),
        )
        if time_ns
    ]
    if device.without_owner:
        notes.append(
            f"{device.without_owner:,} activities, {time_text(device.without_owner_ns)}, have "
            "no operator, module or annotation around their launch."
        )
    if device.without_launch:
        notes.append(f"The launch of {device.without_launch:,} activities is unknown.")
    if device.occupancy >= 0:
        notes.append(f"Occupancy by kernels' sizes: {share_text(device.occupancy)}.")
    notes += [_memory(one) for one in use.memory if one.device == device.device]
    rest = len(device.streams) - MOST_STREAMS
    if rest > 0:
        notes.append(f"The {MOST_STREAMS} busiest streams are shown; {rest:,} more are not.")
    return notes


def _memory(memory: ReservedMemory) -> str:
    used = f"At most {bytes_text(memory.peak_used_bytes)} of its memory was in use"
    if memory.peak_reserved_bytes < 0:
        return f"{used}; reserved memory was not reported."
    reserved = f"at most {bytes_text(memory.peak_reserved_bytes)} was reserved"
    return f"{used}, {reserved}; {share_text(memory.unused_share)} of that unused on average."


def _stream(stream: StreamUse, use: DevicesUse) -> list[str]:
    busy = f"{time_text(stream.busy_ns)}, {share_text(use.share(stream.busy_ns))}"
    row = [str(stream.stream), f"{stream.work:,}", busy]
    if stream.delay_median_ns < 0:
        return [*row, _UNKNOWN, *[""] * (len(_STREAM_HEADING) - len(row) - 1)]
    delays = (stream.delay_median_ns, stream.delay_90_ns, stream.delay_max_ns)
    waiting = (f"{stream.depth_mean:.1f}", f"{stream.depth_max:,}")
    return [*row, f"{stream.launches:,}", *map(time_text, delays), *waiting]


def _modules(use: DevicesUse) -> dict[str, Any] | None:
    if not use.modules:
        return None
    modules = use.modules_by_time[:MOST_MODULES]
    has_graphs = bool(np.any([module.graph_ns for module in modules]))
    rows = [
        [
            shown(module.module),
            time_text(module.forward_ns + module.backward_ns),
            time_text(module.forward_ns),
            time_text(module.backward_ns),
            *[time_text(module.graph_ns)] * has_graphs,
        ]
        for module in modules
    ]
    return {"heading": _MODULE_HEADING[: len(rows[0])], "rows": rows}
