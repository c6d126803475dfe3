"""What ``opscope run --flight-recorder`` was asked for: checked once, then passed around."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from opscope.errors import UsageError

_NO_BUDGET = "none"


@dataclass(frozen=True, kw_only=True)
class FlightOptions:
    """Of ``opscope run --flight-recorder``.

    Attributes:
        last: how far back dumps go.
        max_memory: of what is recorded.
        budget: the share of time that recording may cost; None: whatever it does.
        directory: where dumps go.
    """

    last: str
    max_memory: str
    budget: float | None
    directory: Path

    @classmethod
    def parse(
        cls, last: str, max_memory: str, budget: str, directory: Path | None
    ) -> FlightOptions:
        """The options as they were typed; the recorder itself checks the others.

        Raises:
            UsageError: ``budget`` is no number.
        """
        try:
            share = None if budget == _NO_BUDGET else float(budget)
        except ValueError:
            raise UsageError(
                f"--budget {budget!r} is no number. Give a share of the time (0.01 is a "
                f"hundredth), or {_NO_BUDGET!r}."
            ) from None
        folder = Path(os.path.abspath(directory or "opscope-dumps"))
        return cls(last=last, max_memory=max_memory, budget=share, directory=folder)
