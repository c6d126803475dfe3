"""What a program's process asks of the one that makes the trace: as text, for a socket."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from opscope.cli.destination import Destination
from opscope.cli.session.run_options import RunOptions


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

    @classmethod
    def of(
        cls,
        options: RunOptions,
        destination: Destination,
        folder: Path,
        rank: int | None,
        process: int | None,
        with_children: bool,
    ) -> EndRequest:
        """What was asked for when the program was run."""
        return cls(
            destination,
            options.sort_by,
            options.row_limit,
            options.table,
            options.why,
            rank,
            process,
            with_children,
            folder,
        )

    @property
    def makes_a_trace(self) -> bool:
        """There is something of this process."""
        return self.recording is not None or self.saved is not None

    def as_text(self) -> str:
        """In one line."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_text(cls, text: str) -> EndRequest:
        """What :meth:`as_text` gave."""
        said = json.loads(text)
        job = said["job"]
        if job is not None:
            job = JobRequest(
                **{
                    **job,
                    "folder": Path(job["folder"]),
                    "destination": _destination(job["destination"]),
                }
            )
        made = cls(**{**said, "destination": _destination(said["destination"]), "job": job})
        return replace(
            made,
            folder=Path(said["folder"]),
            recording=_path(said["recording"]),
            saved=_path(said["saved"]),
            superseded=tuple(map(Path, said["superseded"])),
        )


def _path(said: str | None) -> Path | None:
    return None if said is None else Path(said)


def _destination(said: dict[str, str | None]) -> Destination:
    trace = said["trace"]
    assert trace is not None
    return Destination(Path(trace), _path(said["chrome"]), _path(said["report"]))
