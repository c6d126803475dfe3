"""The argument TRACE of most commands: its options, and reading it."""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from opscope._native import keep_freed_memory
from opscope.api.load import load
from opscope.base.cached_property import cached_property
from opscope.base.memory_limit import require_memory
from opscope.cli.parser import one_of, whole_number
from opscope.cli.views.console import Messages
from opscope.cli.whole_job import of_readable, report_missing
from opscope.columns.trace_data import TraceData
from opscope.errors import InsufficientMemoryError, TraceFormatError, UsageError
from opscope.jobs.recordings import find_recordings
from opscope.storage.job import missing_ranks
from opscope.storage.job_source import Recordings
from opscope.storage.manifest import MANIFEST, unfinished_below, unfinished_recordings
from opscope.storage.partition import (
    Partition,
    choose_part,
    chosen_partition,
    listed,
    partition_folders,
    parts_text,
    several_parts,
)
from opscope.storage.remote import local_path
from opscope.timeline.doubts import doubts_text
from opscope.timeline.period import Which
from opscope.timeline.typical_stretch import COLUMNS, MOST_EVENTS, SAMPLE_EVENTS, bounds_of_stretch

if TYPE_CHECKING:
    from opscope.api.job import Job
    from opscope.storage.long_trace import LongTrace


def add_trace(parser: ArgumentParser, period: bool = True, part: bool = True) -> None:
    """Add TRACE, and options that select processes and a part of the recording."""
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

_VERDICT_FACTOR = 6
"""Memory for a verdict, relative to the size of the events' columns."""

_MOST_DOUBTS = 4
"""Maximum number of doubts shown for several processes."""


@dataclass(frozen=True)
class Chosen:
    """The trace, processes and part of the recording that a command is about."""

    path: Path
    part: Partition | None  # the chosen process; None: none was chosen
    # the chosen processes, or all of the folder; empty if it is not an opscope folder
    parts: tuple[Partition, ...] = ()
    source: Recordings | None = None  # the source of the processes, which reads a file only once
    seconds: str | None = None  # value of ``--range``
    steps: str | None = None  # value of ``--steps``
    period: Which | None = None  # period of the view; None: the whole recording

    @cached_property
    def job(self) -> Job:
        """The chosen processes as a job, which keeps what it has read."""
        from opscope.api.job import Job

        return Job(self.path, self.parts)

    @property
    def folder(self) -> Path:
        """The opscope folder with the process; in a job of several hosts, that of its host."""
        if self.source is None or self.part is None:
            return self.path
        return self.source.folder_of(self.part)

    @property
    def is_whole(self) -> bool:
        """Whether neither ``--range`` nor ``--steps`` was given."""
        return self.seconds is None and self.steps is None

    @property
    def has_several(self) -> bool:
        """Whether there are several processes, and none was chosen."""
        return self.part is None and len(self.parts) > 1

    @property
    def is_of_several(self) -> bool:
        """Whether the command is about the whole recordings of several processes."""
        return self.has_several and self.is_whole


def choose_trace(args: Namespace) -> Chosen:
    """Find the trace of the options of :func:`add_trace`; prints the path of a default trace."""
    messages = Messages()
    with messages.progress(f"looking at {args.trace}"):
        path = _newest() if args.trace is None else local_path(args.trace)
    if args.trace is None:
        messages.say(f"{path}, the newest trace in this folder")
    ranks = [] if args.rank is None else _numbers(args.rank)
    part = chosen_partition(ranks[0] if ranks else None, args.process)
    part_options = (getattr(args, name, None) for name in ("range", "steps", "period"))
    if len(ranks) > 1:
        from opscope.api.job import Job

        return Chosen(path, None, Job(path, ranks).parts, None, *part_options)
    source = find_recordings(path)
    if source is not None and path.is_file():
        messages.say(f"{path} contains {len(source.parts)} processes in one file")
    return Chosen(path, part, () if source is None else source.parts, source, *part_options)


def long_trace(chosen: Chosen, most: int = MOST_EVENTS) -> LongTrace | None:
    """The trace on disk, if it has more than ``most`` events; else None."""
    trace = _whole_trace_on_disk(chosen)
    return trace if trace is not None and trace.rows.get("events", 0) > most else None


def _whole_trace_on_disk(chosen: Chosen) -> LongTrace | None:
    """The whole trace of one process in an opscope folder; None for anything else."""
    if not chosen.parts or chosen.has_several or not chosen.is_whole:
        return None
    folder = chosen.folder
    if not partition_folders(folder) or unfinished_recordings(folder):
        return None
    from opscope.storage.long_trace import LongTrace  # imports PyArrow

    return LongTrace(choose_part(folder, chosen.part))


def open_traces(chosen: Chosen) -> TraceData:
    """Load the chosen process, or several processes as one trace."""
    keep_freed_memory()
    if not chosen.is_of_several:
        return load_chosen(chosen)
    from opscope.jobs.merged_trace import SOURCE

    trace, *_ = of_readable(chosen.job, f"reading {chosen.path}", lambda job: job.together())
    count = int(trace.ledger[SOURCE]["shown together"])
    choose = f"choose with {chosen.parts[0].option}"
    Messages().say(f"{count} processes together, on one clock; {choose}")
    return trace


def load_chosen(chosen: Chosen, most: int = MOST_EVENTS) -> TraceData:
    """Load one process or the chosen part of it, with progress and notes.

    The steady state of more than ``most`` events is represented by a typical stretch.
    """
    if chosen.has_several:
        raise several_parts(chosen.path, chosen.parts)
    messages = Messages()
    with messages.progress(f"reading {chosen.path}"):
        loaded = _stretch(chosen, most)
        if loaded is None:
            loaded = _load_whole(chosen) if chosen.is_whole else _load_part(chosen)
    if missing := missing_ranks(loaded.ledger):
        messages.say(f"{missing}: the job is incomplete")
    if doubtful := doubts_text(loaded):
        messages.say(doubtful)
    _report_unreadable(chosen, messages)
    return loaded


def _report_unreadable(chosen: Chosen, messages: Messages) -> None:
    if chosen.parts and (unfinished := list(unfinished_below(chosen.folder))):
        from opscope.recording.recovered import unreadable_recordings

        for error in unreadable_recordings(unfinished):
            messages.say(str(error))


def each_process(chosen: Chosen, doing: str) -> Iterator[tuple[Partition, TraceData]]:
    """The processes of a folder, one after another, with ``doing`` as progress.

    Skips processes that are damaged or empty, and prints notes on these and on missing ranks.
    """
    messages = Messages()
    empty: list[Partition] = []
    incomplete: list[Partition] = []
    damaged: dict[Partition, TraceFormatError] = {}
    doubts: dict[Partition, list[str]] = {}
    with messages.progress(f"{doing} {len(chosen.parts)} processes"):
        job = chosen.job
        for number, trace in job.traces(damaged.__setitem__):
            if trace.ledger.missing():
                incomplete.append(number)
            if doubtful := doubts_text(trace):
                doubts[number] = [doubtful]
            if not trace.is_empty:
                yield number, trace
            else:
                empty.append(number)
    if len(damaged) == len(chosen.parts):
        raise next(iter(damaged.values()))
    if len(empty) + len(damaged) == len(chosen.parts):
        raise TraceFormatError(
            f"{chosen.path} contains no events{_except_text(damaged)}. Record a program that runs "
            "torch operators."
        )
    for line in shared_notes(doubts, len(chosen.parts), _MOST_DOUBTS):
        messages.say(line)
    for part, error in damaged.items():
        messages.say(f"{part} is excluded: {error}")
    if empty:
        messages.say(f"without any event: {listed(empty)}")
    report_missing(job, messages, incomplete)


def shared_notes(
    notes: Mapping[Partition, Iterable[str]], among: int, most: int | None = None
) -> list[str]:
    """Each note once, with the processes that have it; at most ``most`` lines.

    ``among``: number of all processes.
    """
    parts_by_text: dict[str, list[Partition]] = {}
    for part, lines in notes.items():
        for line in lines:
            parts_by_text.setdefault(line, []).append(part)
    result = [f"{parts_text(parts, among)}: {line}" for line, parts in parts_by_text.items()]
    if most is None or len(result) <= most:
        return result
    return [*result[:most], f"{len(result) - most:,} more notes: --format json has all"]


def _except_text(damaged: Mapping[Partition, TraceFormatError]) -> str:
    return f" that can be read (not {listed(damaged)})" if damaged else ""


def _stretch(chosen: Chosen, most: int) -> TraceData | None:
    trace = long_trace(chosen, most) if chosen.period is Which.STEADY else None
    return None if trace is None else stretch_of(trace)


def stretch_of(trace: LongTrace, most: int = SAMPLE_EVENTS) -> TraceData | None:
    """The typical stretch of a long recording; None if that would be all of it."""
    read = partial(trace.columns, COLUMNS)
    found = bounds_of_stretch(trace.small, read, str(trace.folder), most)
    if found is None:
        return None
    begin_ns, end_ns, added = found
    return trace.between(begin_ns, end_ns).with_metadata(added)


def _load_whole(chosen: Chosen) -> TraceData:
    by_kind = {} if chosen.part is None else {chosen.part.kind: chosen.part.number}
    try:
        if chosen.period is not None and (trace := _whole_trace_on_disk(chosen)) is not None:
            needed_bytes = trace.memory_bytes("events") * _VERDICT_FACTOR + trace.memory_bytes()
            require_memory(needed_bytes, f"reading all of {chosen.path}")
        loaded = load(chosen.path, **by_kind)
        assert isinstance(loaded, TraceData)  # not a Job, because one process is chosen
        return loaded
    except InsufficientMemoryError as error:
        if not chosen.parts:
            raise
        steady = "" if chosen.period in (None, Which.STEADY) else "--period steady, "
        raise InsufficientMemoryError(
            f"{error} Or select a part of it: {steady}--range A..B (seconds) or --steps A..B."
        ) from error


def _load_part(chosen: Chosen) -> TraceData:
    from opscope.storage.long_trace import LongTrace  # imports PyArrow

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
    numbers: set[int] = set()
    for item in text.split(","):
        match = _NUMBERS.fullmatch(item.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise UsageError(
                f"--rank is {text!r}. Give the number of a rank, or of several as in 0,4-7."
            )
        numbers.update(range(first, last + 1))
    return sorted(numbers)


def _newest() -> Path:
    written = list(_local_traces())
    if not written:
        raise UsageError(
            f"There is no trace in {os.getcwd()}. Record one with `opscope run train.py`, or "
            "name a trace."
        )
    return max(written)[1]


def _local_traces() -> Iterator[tuple[int, Path]]:
    """Yield write time and path of each trace in the current folder; cycles are separate traces."""
    for pattern in ("*.opscope", "*.opscope/cycle-*"):
        for path in Path().glob(pattern):
            manifests = [folder / MANIFEST for folder in partition_folders(path).values()]
            files = [*manifests, *unfinished_recordings(path)]
            times = [file.stat().st_mtime_ns for file in files if file.is_file()]
            if times:
                yield max(times), path
