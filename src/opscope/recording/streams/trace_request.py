"""Request to the process that makes the trace: files to write, output to print."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

CHROME_SUFFIXES = (".json.gz", ".json")
"""Suffixes of the Chrome writer, which is not imported for runs without Chrome files."""


@dataclass(frozen=True)
class Destination:
    """Files to write. Absolute paths, because the program may change the current folder."""

    trace: Path  # folder of the trace; with a schedule, the folder that holds one trace per cycle
    chrome: Path | None = None  # Chrome trace; with a schedule, its name gets the cycle number
    report: Path | None = None  # HTML page; with a schedule, likewise

    def of_cycle(self, number: int) -> Destination:
        """Files of the ``number``-th recorded cycle."""
        name = f"cycle-{number}"
        files = [file and with_part(file, name) for file in (self.chrome, self.report)]
        return Destination(self.trace / name, *files)


@dataclass(frozen=True)
class JobRequest:
    """Show all processes of the run, once they have ended."""

    folder: Path  # folder of their traces
    has_cycles: bool  # whether a schedule may have several cycles
    root: int | None  # the process that was run; None if others show the processes they began
    destination: Destination  # files about all of them


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:  # the folder was removed
        return Path("/")


@dataclass(frozen=True)
class EndRequest:
    """Make a trace, and show it."""

    destination: Destination  # the trace and other files to write
    # the program's current folder, for relative names of its sources
    folder: Path = field(default_factory=_current_folder)
    table: bool = False  # print the operator table
    why: bool = False  # print the full verdict
    rank: int | None = None  # rank of the process; None for the rank in its job
    process: int | None = None  # process number, for one of several without ranks
    with_children: bool = False  # all processes are shown together, by the last request
    recording: Path | None = None  # file of the recording; None if its trace is saved
    saved: Path | None = None  # folder of the saved trace
    is_shown: bool = True  # else the program runs on, and only failures are printed
    is_written: bool = False  # the files were written before; show them, with ``facts``
    facts: dict[str, Any] | None = None  # ``ProgramFacts`` as JSON
    job: JobRequest | None = None  # show all processes now
    verdict: Path | None = None  # JSON file for the verdict; then nothing is printed
    by_stage: bool = False  # also a verdict for each stage of a serving engine
    is_awaited: bool = True  # the process waits for what is printed; else only failures are

    @property
    def makes_a_trace(self) -> bool:
        """Whether there is a recording or a trace of this process."""
        return self.recording is not None or self.saved is not None

    def as_text(self) -> str:
        """One line of JSON, for a socket."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_text(cls, text: str) -> EndRequest:
        """Inverse of :meth:`as_text`."""
        values = json.loads(text)
        job = values["job"]
        if job is not None:
            paths = {"folder": Path(job["folder"]), "destination": _places(job["destination"])}
            values["job"] = JobRequest(**{**job, **paths})
        values["destination"] = _places(values["destination"])
        for name in ("folder", "recording", "saved", "verdict"):
            values[name] = values[name] and Path(values[name])
        return cls(**values)


def _places(values: dict[str, str | None]) -> Destination:
    return Destination(**{name: path and Path(path) for name, path in values.items()})  # type: ignore[arg-type]


def with_part(path: Path, part: str) -> Path:
    """``trace.json.gz`` with ``part`` becomes ``trace-part.json.gz``."""
    suffix = next((s for s in (*CHROME_SUFFIXES, ".html") if path.name.endswith(s)), "")
    return path.with_name(f"{path.name.removesuffix(suffix)}-{part}{suffix}")
