"""Collapsed stacks: ``outermost;…;innermost value`` per line, for flame graph tools.

The format is that of Brendan Gregg's ``flamegraph.pl``; speedscope and others read it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.export.format import Format
from opscope.export.output_file import write_file
from opscope.timeline.doubts import require_times
from opscope.timeline.listing import OwnListing, TorchListing, measure_device_time
from opscope.timeline.period import period_of
from opscope.timeline.signatures import first_of_each
from opscope.timeline.stacks import Stacks

METRICS = (
    "self_cpu_time_total",
    "self_cuda_time_total",
    "self_xpu_time_total",
    "self_privateuse1_time_total",
)
"""The values of a stack; all but the first are device time."""

_DEEPEST = 1 << 20  # no limit to the frames of a stack
_FORBIDDEN = str.maketrans(" ;\t\n", "____")


def write_stacks(trace: TraceData, path: str | Path, metric: str = METRICS[0]) -> None:
    """Write one line per event with a stack and at least 1 µs of ``metric``, as torch does.

    Args:
        trace: recorded with Python stacks.
        metric: one of :data:`METRICS`, in microseconds.
    """
    check_metric(metric)
    listing = TorchListing(trace)
    stacks = _stacks_of(listing)
    value = _values(listing, metric)
    chosen = np.flatnonzero(listing.listed & (stacks.innermost >= 0) & (value >= 1000))
    _refuse_empty(chosen, metric)
    pairs = ((stacks.of(event), int(value[event]) // 1000) for event in chosen.tolist())
    write_collapsed(pairs, path)


def write_own_stacks(trace: TraceData, path: str | Path, metric: str = METRICS[0]) -> None:
    """Write one line per stack with the times of opscope's own views.

    The value is the sum over the stack's innermost function and all operators in it. Start-up is
    omitted, as in the report's flame graph.
    """
    check_metric(metric)
    require_times(trace)
    listing = OwnListing(period_of(trace).trace)
    stacks = _stacks_of(listing, own=True)
    value = _values(listing, metric)
    rows = np.flatnonzero(listing.listed & (stacks.innermost >= 0) & (value > 0))
    group, first = first_of_each(stacks.signatures(_DEEPEST)[rows])
    total = np.zeros(len(first), dtype=np.int64)
    np.add.at(total, group, value[rows])
    shown = np.flatnonzero(total >= 1000)
    _refuse_empty(shown, metric)
    pairs = ((stacks.of(int(rows[first[g]])), int(total[g]) // 1000) for g in shown.tolist())
    write_collapsed(pairs, path)


def _stacks_of(listing: TorchListing, own: bool = False) -> Stacks:
    stacks = Stacks(listing, with_itself=own, of_makers=own)
    if not stacks:
        raise UsageError(
            "There are no Python stacks in this trace. Record with with_stack=True to export them."
        )
    return stacks


def _values(listing: TorchListing, metric: str) -> npt.NDArray[np.int64]:
    on_cpu = metric == METRICS[0]
    return listing.self_ns if on_cpu else measure_device_time(listing).self_ns


def _refuse_empty(chosen: npt.NDArray[np.int64], metric: str) -> None:
    if not chosen.size:
        raise UsageError(
            f"All events with a stack have 0 µs of {metric}. Choose another metric; device time "
            "needs a recording with a device."
        )


def check_metric(metric: str) -> None:
    """Raise UsageError unless ``metric`` is one of :data:`METRICS`."""
    if metric not in METRICS:
        raise UsageError(f"{metric!r} is not a metric of stacks. Use one of: {', '.join(METRICS)}.")


def write_collapsed(stacks: Iterable[tuple[Sequence[str], int]], path: str | Path) -> None:
    """Write pairs of frames (innermost first) and value."""
    lines = (_line(frames, value).encode("utf-8", "replace") for frames, value in stacks)
    write_file(path, lines)


def _line(frames: Sequence[str], value: int) -> str:
    return f"{';'.join(frame.translate(_FORBIDDEN) for frame in reversed(frames))} {value}\n"


FORMAT = Format(
    name="stacks",
    suffixes=(".txt", ".stacks", ".folded"),
    help="collapsed stacks, for flame graphs",
    write=write_own_stacks,
)
