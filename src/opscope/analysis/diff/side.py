"""One side of a comparison: recordings of one version of a program."""

from __future__ import annotations

from dataclasses import dataclass

from opscope.analysis.diff.places import KnownBy, recorded_parts
from opscope.analysis.diff.step_costs import StepCosts, step_costs
from opscope.columns.trace_data import TraceData


@dataclass(frozen=True, eq=False)
class Side:
    """Recordings of one version.

    Attributes:
        names: what each is called.
        traces: of each.
    """

    names: tuple[str, ...]
    traces: tuple[TraceData, ...]

    @property
    def parts(self) -> frozenset[KnownBy]:
        """What all of them recorded of a place."""
        return frozenset.intersection(*(recorded_parts(trace) for trace in self.traces))

    def costs(self, parts: frozenset[KnownBy]) -> list[StepCosts]:
        """Of each recording, with places known by ``parts``."""
        return [step_costs(trace, parts) for trace in self.traces]
