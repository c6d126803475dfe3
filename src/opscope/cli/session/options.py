"""What ``opscope run`` was asked for, and what its process asks of the one that makes the trace."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError, _ArgumentGroup
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from opscope.cli.destination import Destination
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


def what_to_record(text: str) -> list[str]:
    """``operators,shapes`` as options of the recorder beside operators, which are always there."""
    known = {s.flag_name.lstrip("-"): s.option for s in switches() if s.flag}
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word != _OPERATORS and word not in known:
            raise ArgumentTypeError(
                f"{word!r} is nothing that can be recorded. Name some of "
                f"{', '.join((_OPERATORS, *known))}"
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
                f"{text!r} never records a step. Make its third number at least 1"
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
    sort_by: str = "self_cpu_time_total"
    row_limit: int = 15
    table: bool = False
    stream: bool = True
    keeper: bool = True
    max_disk_bytes: int | None = None


@dataclass(frozen=True)
class JobRequest:
    """Show all processes of the run, once those have ended that will."""

    folder: Path  # of their traces
    has_cycles: bool  # a schedule may have several
    root: int | None  # the process that was run; None where others show what they began
    destination: Destination  # of what is written of all of them


@dataclass(frozen=True)
class EndRequest:
    """Make a trace, and show it."""

    destination: Destination  # of the trace, and of what else is written
    sort_by: str  # column of the table
    row_limit: int  # rows of it
    table: bool  # print it
    why: bool  # say what to change, in full
    rank: int | None  # of the process; None for that of its job
    process: int | None  # likewise, of one without a rank among several
    with_children: bool  # all of it is shown together, by the last request
    folder: Path  # that the program is in, where relative names of its sources are
    # the file of the recording; None where its trace is saved already
    recording: Path | None = None
    saved: Path | None = None  # the folder of the trace that is saved already
    is_more: bool = False  # that was shown, and nothing but what ``facts`` say is new
    # :class:`opscope.recording.facts.program_facts.ProgramFacts` as JSON
    facts: dict[str, Any] | None = None
    job: JobRequest | None = None  # all processes are to be shown now

    @property
    def makes_a_trace(self) -> bool:
        """There is something of this process."""
        return self.recording is not None or self.saved is not None

    def as_text(self) -> str:
        """In one line of JSON, for a socket."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_text(cls, text: str) -> EndRequest:
        """What :meth:`as_text` gave."""
        said = json.loads(text)
        job = said["job"]
        if job is not None:
            paths = {"folder": Path(job["folder"]), "destination": _places(job["destination"])}
            said["job"] = JobRequest(**{**job, **paths})
        said["destination"] = _places(said["destination"])
        for name in ("folder", "recording", "saved"):
            said[name] = said[name] and Path(said[name])
        return cls(**said)


def _places(said: dict[str, str | None]) -> Destination:
    return Destination(**{name: path and Path(path) for name, path in said.items()})  # type: ignore[arg-type]
