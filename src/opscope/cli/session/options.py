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

WHY = frozenset({"shapes", "memory", "modules", "own_functions", "asyncio"})
"""What finding out why a program is slow needs to be recorded."""


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


@dataclass(frozen=True, kw_only=True)
class ScheduleOption:
    """Which steps to record; the meaning is that of :func:`opscope.schedule`."""

    wait: int
    warmup: int
    active: int
    repeat: int = 0

    @classmethod
    def parse(cls, text: str) -> ScheduleOption:
        """``wait,warmup,active`` or ``wait,warmup,active,repeat``.

        Raises:
            ArgumentTypeError: it is not that.
        """
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


@dataclass(frozen=True)
class JobRequest:
    """Show all processes of the run, once those have ended that will.

    Attributes:
        folder: of their traces.
        has_cycles: a schedule may have several.
        root: the process that was run; None where others show what they began.
        destination: of what is written of all of them.
    """

    folder: Path
    has_cycles: bool
    root: int | None
    destination: Destination


@dataclass(frozen=True)
class EndRequest:
    """Make a trace, and show it.

    Attributes:
        destination: of the trace, and of what else is written.
        sort_by: column of the table.
        row_limit: rows of it.
        table: print it.
        why: say what to change, in full.
        rank: of the process; None for that of its job.
        process: likewise, of one without a rank among several.
        with_children: all of it is shown together, by the last request.
        folder: that the program is in, where relative names of its sources are.
        recording: the file of the recording; None where its trace is saved already.
        superseded: files of recordings of which nothing is wanted any more.
        saved: the folder of the trace that is saved already.
        is_more: that was shown, and nothing but what ``facts`` say is new.
        facts: :class:`opscope.recording.facts.program_facts.ProgramFacts` as JSON.
        job: all processes are to be shown now.
    """

    destination: Destination
    sort_by: str
    row_limit: int
    table: bool
    why: bool
    rank: int | None
    process: int | None
    with_children: bool
    folder: Path
    recording: Path | None = None
    superseded: tuple[Path, ...] = ()
    saved: Path | None = None
    is_more: bool = False
    facts: dict[str, Any] | None = None
    job: JobRequest | None = None

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
        said["superseded"] = tuple(map(Path, said["superseded"]))
        for name in ("folder", "recording", "saved"):
            said[name] = said[name] and Path(said[name])
        return cls(**said)


def _places(said: dict[str, str | None]) -> Destination:
    return Destination(**{name: path and Path(path) for name, path in said.items()})  # type: ignore[arg-type]
