"""One side of a comparison: recordings of one version of a program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from opscope.analysis.diff.places import KnownBy, recorded_parts
from opscope.analysis.diff.step_costs import StepCosts, step_costs
from opscope.analysis.doubts import require_times
from opscope.errors import UsageError
from opscope.trace.address import address_of, shown_address
from opscope.trace.load import load_trace
from opscope.trace.trace import Trace

Recording: TypeAlias = Trace | str | os.PathLike[str]
"""A trace, or where one is."""


@dataclass(frozen=True, eq=False)
class Side:
    """Recordings of one version.

    Attributes:
        names: what each is called.
        traces: of each.
    """

    names: tuple[str, ...]
    traces: tuple[Trace, ...]

    @property
    def parts(self) -> frozenset[KnownBy]:
        """What all of them recorded of a place."""
        return frozenset.intersection(*(recorded_parts(trace) for trace in self.traces))

    def costs(self, parts: frozenset[KnownBy]) -> list[StepCosts]:
        """Of each recording, with places known by ``parts``."""
        return [step_costs(trace, parts) for trace in self.traces]


def open_sides(
    a: Recording | Iterable[Recording],
    b: Recording | Iterable[Recording],
    what: tuple[str, str] = ("the first side", "the second side"),
) -> tuple[Side, Side]:
    """Read the recordings of both sides.

    Args:
        a: one or several.
        b: likewise.
        what: the sides are called where there is none.

    Raises:
        UsageError: a side has none, or one has no events.
        TraceFormatError: as :func:`opscope.load`.
    """
    given = [_as_list(a), _as_list(b)]
    for recordings, side in zip(given, what, strict=True):
        if not recordings:
            raise UsageError(f"There is no recording of {side}. Give at least one.")
    names = _names(given[0] + given[1])
    first = len(given[0])
    return _opened(given[0], names[:first]), _opened(given[1], names[first:])


def _as_list(recordings: Recording | Iterable[Recording]) -> list[Recording]:
    is_one = isinstance(recordings, Trace | str | os.PathLike)
    return [recordings] if is_one else list(recordings)  # type: ignore[list-item, arg-type]


def _opened(given: Sequence[Recording], names: Sequence[str]) -> Side:
    traces = [each if isinstance(each, Trace) else load_trace(each) for each in given]
    for name, trace in zip(names, traces, strict=True):
        if trace.is_empty:
            raise UsageError(
                f"{name} holds no event, so there is nothing to compare. Record a program that "
                "runs torch operators."
            )
        require_times(trace)
    return Side(tuple(names), tuple(traces))


def _names(given: Sequence[Recording]) -> list[str]:
    """Of traces the program; of places as much of the end of the path as tells them apart."""
    places = {row: _place(each) for row, each in enumerate(given) if not isinstance(each, Trace)}
    parts = {row: place.split("/") for row, place in places.items()}
    depth, different = 1, len(set(places.values()))
    while len({tuple(path[-depth:]) for path in parts.values()}) < different:
        depth += 1
    return [
        "/".join(parts[row][-depth:])
        if row in parts
        else str(each.metadata.get("program") or f"recording {row + 1}")  # type: ignore[union-attr]
        for row, each in enumerate(given)
    ]


def _place(recording: str | os.PathLike[str]) -> str:
    address = address_of(recording)
    if address is None:
        return os.path.normpath(os.fsdecode(recording))
    return shown_address(address).rstrip("/")
