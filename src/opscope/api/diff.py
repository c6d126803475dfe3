"""``opscope.diff``: compares two versions of a program, from traces or their paths."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from opscope.analysis.diff.compare import Despite, compare
from opscope.analysis.diff.result import Diff
from opscope.analysis.diff.step_costs import Side
from opscope.base.address import address_of, shown_address
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.recording.streams.load import load_trace
from opscope.timeline.doubts import require_times

Recording: TypeAlias = TraceData | str | os.PathLike[str]
"""A trace or its path."""


def diff(
    a: Recording | Iterable[Recording],
    b: Recording | Iterable[Recording],
    despite: Iterable[Despite | str] = (),
) -> Diff:
    """Compare recordings of two versions of a program: times, calls, bytes, shapes, moved work.

    Compares the steps of the steady state, and start-up separately. Calls, bytes and shapes are
    compared exactly. A difference of times is compared with the variance between recordings if each
    side has three or more, else with the variance between blocks of steps, which detects only large
    differences.

    Args:
        a: the old version: a trace or its path, or several.
        b: the new version: a trace or its path, or several.
        despite: differences to ignore, ``versions`` (of torch and Python) or ``options`` (of the
            recording); otherwise such a difference prevents the comparison of times.

    Raises:
        UsageError: a side has no recording, a recording is empty, or ``despite`` is invalid.
        TraceFormatError: as :func:`opscope.load`.
    """
    return compare(*open_sides(a, b), despite)


def open_sides(
    a: Recording | Iterable[Recording],
    b: Recording | Iterable[Recording],
    what: tuple[str, str] = ("the first side", "the second side"),
) -> tuple[Side, Side]:
    """Read the recordings of both sides; ``what``: names of the sides, for messages."""
    old, new = _as_list(a), _as_list(b)
    names = _names(old + new)
    return side_of(old, names[: len(old)], what[0]), side_of(new, names[len(old) :], what[1])


def _as_list(recordings: Recording | Iterable[Recording]) -> list[Recording]:
    is_one = isinstance(recordings, TraceData | str | os.PathLike)
    return [recordings] if is_one else list(recordings)  # type: ignore[list-item, arg-type]


def side_of(
    recordings: Sequence[Recording], names: Sequence[str], what: str = "one of the versions"
) -> Side:
    """Read one side's recordings; messages call these ``names`` and the side ``what``."""
    if not recordings:
        raise UsageError(f"There is no recording of {what}. Give at least one.")
    traces = [r if isinstance(r, TraceData) else load_trace(r) for r in recordings]
    for name, trace in zip(names, traces, strict=True):
        if trace.is_empty:
            raise UsageError(
                f"{name} contains no events. Record a program that runs torch operators."
            )
        require_times(trace)
    return Side(tuple(names), tuple(traces))


def _names(recordings: Sequence[Recording]) -> list[str]:
    """Name of each recording: a trace's program, or the shortest unique end of a path."""
    locations = {
        row: _location(r) for row, r in enumerate(recordings) if not isinstance(r, TraceData)
    }
    parts = {row: location.split("/") for row, location in locations.items()}
    depth, different = 1, len(set(locations.values()))
    while len({tuple(path[-depth:]) for path in parts.values()}) < different:
        depth += 1
    return [
        "/".join(parts[row][-depth:])
        if row in parts
        else str(r.metadata.get("program") or f"recording {row + 1}")  # type: ignore[union-attr]
        for row, r in enumerate(recordings)
    ]


def _location(recording: str | os.PathLike[str]) -> str:
    address = address_of(recording)
    if address is None:
        return os.path.normpath(os.fsdecode(recording))
    return shown_address(address).rstrip("/")
