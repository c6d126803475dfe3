"""Options of ``opscope run``."""

from __future__ import annotations

from argparse import ArgumentTypeError, _ArgumentGroup
from dataclasses import dataclass, field

from opscope.recording.sources import switches
from opscope.torch_api.schedule import CyclicSchedule
from opscope.torch_api.settings import ProfileSettings

_OPERATORS = "operators"


def add_switches(group: _ArgumentGroup) -> None:
    """Add a flag for each kind of data; ``recorded`` in the namespace is the list of them."""
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
    """Parse ``operators,shapes``; returns the recorder's options without ``operators``."""
    by_name = {s.flag_name.lstrip("-"): s.option for s in switches() if s.flag}
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word != _OPERATORS and word not in by_name:
            raise ArgumentTypeError(
                f"{word!r} cannot be recorded. Name some of {', '.join((_OPERATORS, *by_name))}"
            )
    return [by_name[word] for word in words if word != _OPERATORS]


def parse_schedule(text: str) -> CyclicSchedule:
    """Parse ``wait,warmup,active`` or ``wait,warmup,active,repeat``."""
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
    return CyclicSchedule(
        wait=wait, warmup=warmup, active=active, repeat=repeat[0] if repeat else 0
    )


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of ``opscope run`` without the program and the output paths; see its help."""

    settings: ProfileSettings = field(default_factory=ProfileSettings)
    schedule: CyclicSchedule | None = None
    detail: ProfileSettings | None = None  # for steps in detail; None: no such steps
    why: bool = False
    table: bool = False
    view: bool = False
    stream: bool = True
    keeper: bool = True
    max_disk_bytes: int | None = None  # None: half of the free space
