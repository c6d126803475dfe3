"""Options of ``opscope run``."""

from __future__ import annotations

from argparse import ArgumentTypeError, _ArgumentGroup
from dataclasses import dataclass, field

from opscope.recording.sources import switches
from opscope.torch_api.settings import ProfileSettings

DETAIL = frozenset({"shapes", "memory", "modules", "own_functions", "asyncio"})
"""What finding out why a program is slow needs to be recorded."""

_OPERATORS = "operators"


def add_switches(group: _ArgumentGroup) -> None:
    """Declare a flag for each thing that can be recorded; ``recorded`` is a list of them."""
    group.set_defaults(recorded=[])
    for switch in switches():
        if switch.flag:
            group.add_argument(
                switch.flag_name,
                dest="recorded",
                action="append_const",
                const=switch.option,
                help=switch.flag,
            )


def parse_record_option(text: str) -> list[str]:
    """``operators,shapes`` as options of the recorder beside operators, which are always there."""
    known = {s.flag_name.lstrip("-"): s.option for s in switches() if s.flag}
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word != _OPERATORS and word not in known:
            raise ArgumentTypeError(
                f"{word!r} cannot be recorded. Name some of {', '.join((_OPERATORS, *known))}"
            )
    return [known[word] for word in words if word != _OPERATORS]


@dataclass(frozen=True, kw_only=True)
class ScheduleOption:
    """Which steps to record; the meaning is that of :func:`opscope.schedule`."""

    wait: int
    warmup: int
    active: int
    repeat: int = 0

    @classmethod
    def parse(cls, text: str) -> ScheduleOption:
        """``wait,warmup,active`` or ``wait,warmup,active,repeat``."""
        parts = text.split(",")
        if not (3 <= len(parts) <= 4 and all(part.strip().isdecimal() for part in parts)):
            raise ArgumentTypeError(
                f"{text!r} is not wait,warmup,active or wait,warmup,active,repeat. Give three or "
                "four numbers of steps, for example 5,1,3,2"
            )
        wait, warmup, active, *repeat = map(int, parts)
        if active == 0:
            raise ArgumentTypeError(
                f"{text!r} never records a step. Its third number must be at least 1"
            )
        return cls(wait=wait, warmup=warmup, active=active, repeat=repeat[0] if repeat else 0)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of ``opscope run``, as its help explains them, beyond the program and the places of
    its files; a limit that is None is half of what is free."""

    settings: ProfileSettings = field(default_factory=ProfileSettings)
    schedule: ScheduleOption | None = None
    # what is recorded besides of some steps; None where all is recorded alike
    detail: ProfileSettings | None = None
    why: bool = False
    table: bool = False
    view: bool = False
    stream: bool = True
    keeper: bool = True
    max_disk_bytes: int | None = None
