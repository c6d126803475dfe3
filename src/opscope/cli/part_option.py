"""The options that choose a part of a recording: --range and --steps."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

from opscope.cli.parameters import Option
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError

if TYPE_CHECKING:
    from opscope.storage.long_trace import LongTrace

RangeOption: TypeAlias = Annotated[
    str | None,
    Option(
        metavar="A..B",
        help="Only what ran between these seconds after the first event, as in 10..12.5.",
        default="all",
    ),
]

StepsOption: TypeAlias = Annotated[
    str | None,
    Option(metavar="A..B", help="Only what ran in these steps, as in 100..110.", default="all"),
]


@dataclass(frozen=True)
class PartOption:
    """What part of a recording is asked for.

    Attributes:
        seconds: after its first event, as A..B; None for all.
        steps: likewise.
    """

    seconds: str | None = None
    steps: str | None = None

    @property
    def is_all(self) -> bool:
        """No part was asked for."""
        return self.seconds is None and self.steps is None

    def of(self, trace: LongTrace) -> TraceData:
        """That part.

        Raises:
            UsageError: there is no such part, or both are given.
        """
        if self.seconds is not None and self.steps is not None:
            raise UsageError("--range and --steps each say what part is meant. Leave one out.")
        if self.steps is not None:
            first, last = _bounds(self.steps, "--steps")
            return trace.between(*trace.of_steps(int(first), int(last)))
        begin_ns, _ = trace.span_ns
        first, last = _bounds(self.seconds or "", "--range")
        return trace.between(begin_ns + int(first * 1e9), begin_ns + int(last * 1e9))


ALL = PartOption()


def _bounds(text: str, option: str) -> tuple[float, float]:
    first, dots, last = text.partition("..")
    with suppress(ValueError):
        if dots and 0 <= float(first) <= float(last):
            return float(first), float(last)
    raise UsageError(f"{option} is {text!r}. Give two numbers, the smaller first, as in 10..20.")
