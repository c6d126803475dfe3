"""The trace that most commands read: the same argument, options and progress everywhere."""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from opscope._native import keep_freed_memory
from opscope.api.load import load
from opscope.base.memory_limit import require_memory
from opscope.cli.parser import one_of, whole_number
from opscope.cli.views.console import Messages
from opscope.cli.whole_job import of_readable, report_missing
from opscope.columns.trace_data import TraceData
from opscope.errors import InsufficientMemoryError, TraceFormatError, UsageError
from opscope.jobs.chrome_files import ChromeFile
from opscope.jobs.recordings import Recordings, find_recordings, folder_of
from opscope.storage.job import missing_ranks
from opscope.storage.manifest import MANIFEST, unfinished_below, unfinished_recordings
from opscope.storage.partition import (
    RANK,
    Partition,
    choose_part,
    chosen_partition,
    listed,
    partition_folders,
    parts_text,
)
from opscope.storage.remote import local_path
from opscope.timeline.detail import latest_bounds
from opscope.timeline.doubts import doubts_text
from opscope.timeline.period import Which
from opscope.timeline.typical_stretch import COLUMNS, MOST_EVENTS, SAMPLE_EVENTS, find_stretch

if TYPE_CHECKING:
    from opscope.api.job import Job
    from opscope.storage.long_trace import LongTrace


def add_trace(parser: ArgumentParser, period: bool = True, part: bool = True) -> None:
    """Declare TRACE, and what of it is looked at: which processes, which part."""
    parser.add_argument(
        "trace",
        nargs="?",
        type=Path,
        metavar="TRACE",
        help="Trace folder, Chrome trace (.json, .json.gz) of any profiler, or URL such as "
        "s3://bucket/job. [default: the newest NAME.opscope in this folder]",
    )
    group = parser.add_argument_group("selection")
    group.add_argument(
        "--rank",
        metavar="N",
        help="Rank of a distributed job; several as in 0,4-7.",
    )
    group.add_argument(
        "--process",
        metavar="PID",
        type=whole_number(),
        help="Process ID, if several processes were recorded (`opscope run --children`).",
    )
    if period:
        group.add_argument(
            "--period",
            default=Which.STEADY,
            **one_of(Which),
            help="steady: the steps after start-up; start-up: only start-up; all: the whole "
            "recording. [default: steady]",
        )
    if part:
        group.add_argument(
            "--range",
            metavar="A..B",
            help="Only the time between these seconds after the first event, as in 10..12.5.",
        )
        group.add_argument("--steps", metavar="A..B", help="Only these steps, as in 100..110.")


_NUMBERS = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")

_TO_JUDGE = 6
"""So many times the columns of the events take what is derived of them for a verdict."""

_MOST_DOUBTS = 4
"""Maximum number of doubts shown for several processes."""


@dataclass(frozen=True)
class Chosen:
    """The trace, processes and part of the recording that a command is about."""

    path: Path  # where it is
    part: Partition | None  # which process was asked for; None where that was not said
    # the processes that are meant, all of the folder's where none was asked for; empty for what is
    # no folder of ours
    parts: tuple[Partition, ...] = ()
    source: Recordings | None = None  # what holds them, kept so that a file is read once
    # the part of the recording that was asked for, as A..B after its first event
    seconds: str | None = None
    steps: str | None = None  # likewise, in steps
    period: Which | None = None  # which part an answer is about; None for one about all of it

    @property
    def job(self) -> Job:
        """The processes that are looked at, of a folder that has several."""
        from opscope.api.job import Job

        return Job(self.path, self.parts)

    @property
    def folder(self) -> Path:
        """The opscope folder with the process; in a job of several hosts, the folder of its
        host."""
        return folder_of(self.path, self.part)

    @property
    def is_whole(self) -> bool:
        """Whether no part of the recording was asked for."""
        return self.seconds is None and self.steps is None

    @property
    def has_several(self) -> bool:
        """Whether there are several processes, and none was asked for."""
        return self.part is None and len(self.parts) > 1

    @property
    def is_of_several(self) -> bool:
        """Whether there are several processes, and the whole recording of each is wanted."""
        return self.has_several and self.is_whole


def choose_trace(args: Namespace) -> Chosen:
    """Find what the options of :func:`add_trace` say; says which it is, if that was not said."""
    messages = Messages()
    with messages.progress(f"looking at {args.trace}"):
        path = _newest() if args.trace is None else local_path(args.trace)
    if args.trace is None:
        messages.say(f"{path}, the newest trace in this folder")
    ranks = [] if args.rank is None else _numbers(args.rank)
    part = chosen_partition(ranks[0] if ranks else None, args.process)
    cut = (getattr(args, name, None) for name in ("range", "steps", "period"))
    if len(ranks) > 1:
        from opscope.api.job import Job

        return Chosen(path, None, Job(path, ranks).parts, None, *cut)
    source = find_recordings(path)
    if isinstance(source, ChromeFile):
        messages.say(f"{path} contains {len(source.parts)} processes in one file")
    return Chosen(path, part, () if source is None else source.parts, source, *cut)


def long_trace(chosen: Chosen, most: int = MOST_EVENTS) -> LongTrace | None:
    """A trace on disk that is long, of more than ``most`` events; None for one that is not."""
    found = _on_disk(chosen)
    return found if found is not None and found.rows.get("events", 0) > most else None


def _on_disk(chosen: Chosen) -> LongTrace | None:
    """The whole trace of one process in an opscope folder; None for anything else."""
    if not chosen.parts or chosen.has_several or not chosen.is_whole:
        return None
    folder = chosen.folder
    if not partition_folders(folder) or unfinished_recordings(folder):
        return None
    from opscope.storage.long_trace import LongTrace  # with what reads Parquet

    return LongTrace(choose_part(folder, chosen.part))


def _several(chosen: Chosen) -> str:
    kinds = sorted({part.kind for part in chosen.parts}, reverse=True)
    what = "ranks" if kinds == [RANK] else "processes"
    options = " or ".join(f"--{kind}" for kind in kinds)
    return (
        f"{chosen.path} contains several {what}: {listed(chosen.parts)}. Choose one with {options}."
    )


def open_traces(chosen: Chosen) -> TraceData:
    """Load it; where there are several and none was chosen, all of them as one."""
    keep_freed_memory()
    if not chosen.is_of_several:
        return load_chosen(chosen)
    from opscope.jobs.merged_trace import SOURCE

    trace, *_ = of_readable(chosen.job, f"reading {chosen.path}", lambda job: job.together())
    shown = int(trace.ledger[SOURCE]["shown together"])
    choose = f"choose with {chosen.parts[0].option}"
    Messages().say(f"{shown} processes together, on one clock; {choose}")
    return trace


def load_chosen(chosen: Chosen) -> TraceData:
    """Load one process, or the part of it that was asked for, showing that this is going on.

    Of a long recording whose steady state was asked for, it is the stretch that stands for that.
    """
    if chosen.has_several:
        raise UsageError(_several(chosen))
    messages = Messages()
    with messages.progress(f"reading {chosen.path}"):
        loaded = _stretch(chosen)
        if loaded is None:
            loaded = _whole(chosen) if chosen.is_whole else _part(chosen)
    if missing := missing_ranks(loaded.ledger):
        messages.say(f"{missing}: the job is incomplete")
    if doubtful := doubts_text(loaded):
        messages.say(doubtful)
    _report_unreadable(chosen, messages)
    return loaded


def _report_unreadable(chosen: Chosen, messages: Messages) -> None:
    """Name unfinished recordings of the folder that cannot be read."""
    if chosen.parts and (begun := list(unfinished_below(chosen.folder))):
        from opscope.recording.recovered import unreadable_recordings

        for error in unreadable_recordings(begun):
            messages.say(str(error))


def each_process(chosen: Chosen, doing: str) -> Iterator[tuple[Partition, TraceData]]:
    """The processes of a folder one after the other.

    What of a process is damaged or holds no event is passed over; that and ranks that are missing
    is said. While one is looked at it is shown that ``doing`` goes on.
    """
    messages = Messages()
    empty: list[Partition] = []
    incomplete: list[Partition] = []
    damaged: dict[Partition, TraceFormatError] = {}
    doubtful_of: dict[Partition, list[str]] = {}
    with messages.progress(f"{doing} {len(chosen.parts)} processes"):
        job = chosen.job
        for number, trace in job.traces(damaged.__setitem__):
            if trace.ledger.missing():
                incomplete.append(number)
            if doubtful := doubts_text(trace):
                doubtful_of[number] = [doubtful]
            if not trace.is_empty:
                yield number, trace
            else:
                empty.append(number)
    if len(damaged) == len(chosen.parts):
        raise next(iter(damaged.values()))
    if len(empty) + len(damaged) == len(chosen.parts):
        raise TraceFormatError(
            f"{chosen.path} contains no events{_beside(damaged)}. Record a program that runs "
            "torch operators."
        )
    for line in shared_notes(doubtful_of, len(chosen.parts), _MOST_DOUBTS):
        messages.say(line)
    for part, error in damaged.items():
        messages.say(f"{part} is excluded: {error}")
    if empty:
        messages.say(f"without any event: {listed(empty)}")
    report_missing(job, messages, incomplete)


def shared_notes(
    notes: Mapping[Partition, Iterable[str]], among: int, most: int | None = None
) -> list[str]:
    """Notes of processes (``among`` is their number): each once, with the processes that have it.

    Of what JSON has as well, ``most`` lines are enough.
    """
    of_text: dict[str, list[Partition]] = {}
    for part, lines in notes.items():
        for line in lines:
            of_text.setdefault(line, []).append(part)
    found = [f"{parts_text(parts, among)}: {line}" for line, parts in of_text.items()]
    if most is None or len(found) <= most:
        return found
    return [*found[:most], f"{len(found) - most:,} more notes: --format json has all"]


def _beside(damaged: Mapping[Partition, TraceFormatError]) -> str:
    return f" that can be read (not {listed(damaged)})" if damaged else ""


def _stretch(chosen: Chosen) -> TraceData | None:
    """The stretch that represents a long recording, if its steady state is wanted; else None."""
    trace = long_trace(chosen) if chosen.period is Which.STEADY else None
    return None if trace is None else stretch_of(trace)


def stretch_of(trace: LongTrace, most: int = SAMPLE_EVENTS) -> TraceData | None:
    """The stretch that stands for a long recording; None where that has no more events."""
    if (bounds := latest_bounds(trace.small.metadata)) is not None:
        return trace.between(*bounds)
    found = find_stretch(trace.small.names, trace.columns(COLUMNS), most)
    if found is None:
        return None
    return trace.between(found.begin_ns, found.end_ns).with_metadata(found.facts())


def _whole(chosen: Chosen) -> TraceData:
    by_kind = {} if chosen.part is None else {chosen.part.kind: chosen.part.number}
    try:
        if chosen.period is not None and (trace := _on_disk(chosen)) is not None:
            needed = trace.memory_bytes("events") * _TO_JUDGE + trace.memory_bytes()
            require_memory(needed, f"looking into all of {chosen.path}")
        loaded = load(chosen.path, **by_kind)
        assert isinstance(loaded, TraceData)  # of several one was chosen
        return loaded
    except InsufficientMemoryError as error:
        if not chosen.parts:
            raise
        steady = "" if chosen.period in (None, Which.STEADY) else "--period steady, "
        raise InsufficientMemoryError(
            f"{error} Or look at a part of it: {steady}--range A..B (seconds) or --steps A..B."
        ) from error


def _part(chosen: Chosen) -> TraceData:
    from opscope.storage.long_trace import LongTrace  # with what reads Parquet

    folder = chosen.folder
    if not partition_folders(folder):
        raise UsageError(
            f"--range and --steps need an opscope trace, but {chosen.path} is in another "
            f"format. Convert it with `opscope export {quote(str(chosen.path))} -o "
            "NAME.opscope`."
        )
    trace = LongTrace.at(folder, chosen.part)
    if chosen.seconds is not None and chosen.steps is not None:
        raise UsageError("--range and --steps exclude each other. Use only one of them.")
    if chosen.steps is not None:
        first, last = _bounds(chosen.steps, "--steps")
        return trace.between(*trace.of_steps(int(first), int(last)))
    begin_ns, _ = trace.span_ns
    first, last = _bounds(chosen.seconds or "", "--range")
    return trace.between(begin_ns + int(first * 1e9), begin_ns + int(last * 1e9))


def _bounds(text: str, option: str) -> tuple[float, float]:
    first, dots, last = text.partition("..")
    with suppress(ValueError):
        if dots and 0 <= float(first) <= float(last):
            return float(first), float(last)
    raise UsageError(f"{option} is {text!r}. Give two numbers, the smaller first, as in 10..20.")


def _numbers(text: str) -> list[int]:
    """``0,4-7`` as numbers."""
    found: set[int] = set()
    for piece in text.split(","):
        match = _NUMBERS.fullmatch(piece.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise UsageError(
                f"--rank is {text!r}. Give the number of a rank, or of several as in 0,4-7."
            )
        found.update(range(first, last + 1))
    return sorted(found)


def _newest() -> Path:
    """The trace in this folder that was written last."""
    written = list(_local_traces())
    if not written:
        raise UsageError(
            f"There is no trace in {os.getcwd()}. Record one with `opscope run train.py`, or "
            "name a trace."
        )
    return max(written)[1]


def _local_traces() -> Iterator[tuple[int, Path]]:
    """Yield time of writing and path of each trace in this folder; each cycle of a schedule is a
    trace of its own."""
    for pattern in ("*.opscope", "*.opscope/cycle-*"):
        for path in Path().glob(pattern):
            manifests = [folder / MANIFEST for folder in partition_folders(path).values()]
            files = [*manifests, *unfinished_recordings(path)]
            times = [file.stat().st_mtime_ns for file in files if file.is_file()]
            if times:
                yield max(times), path
