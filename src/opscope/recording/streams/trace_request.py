"""What a process asks of the one that makes its trace: where that goes, and what to say of it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CHROME_SUFFIXES = (".json.gz", ".json")
"""Those of the Chrome writer, which is not imported for runs that write none."""


@dataclass(frozen=True)
class Destination:
    """Absolute paths, because the program may change the current folder."""

    trace: Path  # folder of the trace; with a schedule, the folder that holds one trace per cycle
    # Chrome trace file, if asked for; with a schedule, the cycle number is put into its name
    chrome: Path | None = None
    report: Path | None = None  # HTML page, if asked for; named as ``chrome`` is

    def of_cycle(self, number: int) -> Destination:
        """Where the files of the ``number``-th recorded cycle go."""
        name = f"cycle-{number}"
        files = [file and with_part(file, name) for file in (self.chrome, self.report)]
        return Destination(self.trace / name, *files)


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
    folder: Path  # that the program is in, where relative names of its sources are
    table: bool = False  # print the operators
    why: bool = False  # say what to change, in full
    rank: int | None = None  # of the process; None for that of its job
    process: int | None = None  # likewise, of one without a rank among several
    with_children: bool = False  # all of it is shown together, by the last request
    # the file of the recording; None where its trace is saved already
    recording: Path | None = None
    saved: Path | None = None  # the folder of the trace that is saved already
    is_more: bool = False  # that was shown, and nothing but what ``facts`` say is new
    # :class:`opscope.recording.facts.program_facts.ProgramFacts` as JSON
    facts: dict[str, Any] | None = None
    job: JobRequest | None = None  # all processes are to be shown now
    # JSON file for the verdict, which its process reads; then nothing is printed
    verdict: Path | None = None
    by_stage: bool = False  # the verdict says more: of each stage of a serving engine

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
