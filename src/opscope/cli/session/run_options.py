"""What ``opscope run`` was asked for: checked once, then passed around."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from opscope.errors import UsageError
from opscope.torch_api.settings import ProfileSettings

WHY = frozenset({"shapes", "memory", "modules", "own_functions", "asyncio"})
"""What finding out why a program is slow needs to be recorded."""


@dataclass(frozen=True, kw_only=True)
class ScheduleOption:
    """Which steps to record; the meaning is that of :func:`opscope.schedule`.

    Attributes:
        wait: steps not recorded at the start of a cycle.
        warmup: steps recorded and thrown away.
        active: steps recorded and kept.
        repeat: number of cycles; 0 for as many as the program has.
    """

    wait: int
    warmup: int
    active: int
    repeat: int = 0

    @classmethod
    def parse(cls, text: str) -> ScheduleOption:
        """``wait,warmup,active`` or ``wait,warmup,active,repeat``.

        Raises:
            UsageError: it is not that.
        """
        parts = text.split(",")
        if not (3 <= len(parts) <= 4 and all(part.strip().isdecimal() for part in parts)):
            raise UsageError(
                f"--schedule {text!r} is not wait,warmup,active or wait,warmup,active,repeat. Give "
                "three or four numbers of steps, for example --schedule 5,1,3,2."
            )
        wait, warmup, active, *repeat = map(int, parts)
        if active == 0:
            raise UsageError(
                f"--schedule {text!r} never records a step. Make its third number at least 1."
            )
        return cls(wait=wait, warmup=warmup, active=active, repeat=repeat[0] if repeat else 0)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of ``opscope run`` beyond the program and the places of its files.

    Attributes:
        settings: what to record.
        schedule: which steps to record; None records from start to end.
        why: record the start, then a few warm steps, and say what to change.
        sort_by: column of the table.
        row_limit: rows of the table; -1 for all.
        table: whether to print one.
        stream: the recording is in a file while it runs, and so outlives the program.
        keeper: a process waits that writes the trace if the program ends first.
        max_disk_bytes: of that file; None for half of what is free.
    """

    settings: ProfileSettings = field(default_factory=ProfileSettings)
    schedule: ScheduleOption | None = None
    why: bool = False
    sort_by: str = "self_cpu_time_total"
    row_limit: int = 15
    table: bool = False
    stream: bool = True
    keeper: bool = True
    max_disk_bytes: int | None = None


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
