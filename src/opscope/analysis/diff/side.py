"""One side of a comparison: recordings of one version of a program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from opscope.analysis.diff.places import KnownBy, recorded_parts
from opscope.analysis.diff.step_costs import StepCosts, step_costs
from opscope.errors import UsageError
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


def open_side(recordings: Recording | Iterable[Recording], what: str) -> Side:
    """Read the recordings of a side.

    Args:
        recordings: one or several; ``what`` the side is called where there is none.

    Raises:
        UsageError: there is none, or one has no events.
        TraceFormatError: as :func:`opscope.load`.
    """
    one = isinstance(recordings, Trace | str | os.PathLike)
    given: Sequence[Recording] = [recordings] if one else list(recordings)  # type: ignore[list-item, arg-type]
    if not given:
        raise UsageError(f"There is no recording of {what}. Give at least one.")
    names = [_name(each, number) for number, each in enumerate(given, start=1)]
    traces = [each if isinstance(each, Trace) else load_trace(each) for each in given]
    for name, trace in zip(names, traces, strict=True):
        if not len(trace.events):
            raise UsageError(
                f"{name} holds no event, so there is nothing to compare. Record a program that "
                "runs torch operators."
            )
    return Side(tuple(names), tuple(traces))


def _name(recording: Recording, number: int) -> str:
    if isinstance(recording, Trace):
        return str(recording.metadata.get("program") or f"recording {number}")
    return Path(os.fsdecode(recording)).name or os.fsdecode(recording)
