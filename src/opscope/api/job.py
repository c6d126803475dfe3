"""``Job``: the traces of several processes, with analyses over all of them."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from opscope.api.trace import Trace
from opscope.base.cached_property import cached_property
from opscope.errors import TraceFormatError, UnreadableProcessError, UsageError
from opscope.findings.find import find_findings
from opscope.findings.job_verdict import SharedFinding, job_verdict, shared_findings
from opscope.findings.verdict import Verdict
from opscope.jobs.account_comparison import ComparedAccounts, compare_rollups
from opscope.jobs.collectives import JobCollectives, collectives_together
from opscope.jobs.job_rollups import RolledUp
from opscope.jobs.questions.engines import EngineName
from opscope.jobs.questions.questions import JobQuestion, one_of
from opscope.jobs.rank_path import RankPath, rank_path
from opscope.jobs.rank_steps import RankSteps, rank_steps
from opscope.jobs.recordings import find_recordings
from opscope.jobs.rollup.places import ProcessPlaces
from opscope.jobs.rollup.read import Rollup
from opscope.jobs.saving import save_trace
from opscope.jobs.slow_ranks import SlowRanks, find_slow_ranks
from opscope.storage.job import missing_beside, of_another_job, place_in_job
from opscope.storage.partition import RANK, Partition, listed, or_others, parts_text
from opscope.storage.processes import ProcessEntry, Processes
from opscope.storage.remote import addresses_in_errors, local_path, with_addresses
from opscope.storage.store import all_parts_of, save_part
from opscope.timeline.period import Which, find_which

if TYPE_CHECKING:
    from opscope.jobs.questions.answer import JobAnswer

_Known = TypeVar("_Known")


class Job:
    """A folder with the traces of several processes: an opscope folder, or one Chrome trace for
    each rank as torch.profiler writes them. ``job[3]`` is the trace of rank 3; ``for part, trace in
    job.traces()`` has only one trace in memory at a time. Iterating a job yields its processes,
    ``len(job)`` is their number. Methods raise ``TraceFormatError`` if a process cannot be read, or
    if no process has events.

    Attributes:
        path: the folder.
        parts: the processes, ordered by rank or process id.
    """

    def __init__(
        self, path: str | os.PathLike[str], only: Iterable[SupportsIndex | Partition] | None = None
    ) -> None:
        """Open a folder.

        Args:
            path: the folder or its URL, as for :func:`opscope.load`.
            only: the processes to include, by rank number or ``Partition``; None for all.

        Raises:
            TraceFormatError: the folder cannot be read, or contains no traces of processes.
            UsageError: the folder has no such process.
        """
        self.path = local_path(path)
        source = find_recordings(self.path)
        if source is None and not self.path.is_dir():
            raise TraceFormatError(f"There is no folder {self.path}. Check the path.")
        if source is None:
            raise TraceFormatError(
                f"{self.path} contains no traces of processes. A job is a folder with a "
                "subfolder rank=N or process=N for each process, as opscope run --children and "
                "Trace.save write it, or with a Chrome trace of each rank."
            )
        self._source = source
        self._rolled_up = RolledUp()
        self.parts: tuple[Partition, ...] = source.parts
        self._has_all_parts = True
        if only is not None:
            self._choose(only)

    @property
    def ranks(self) -> list[int]:
        """The recorded ranks."""
        return [part.number for part in self.parts if part.kind == RANK]

    @cached_property
    def compared(self) -> tuple[Partition, ...]:
        """The processes to compare: ranks; without ranks, processes that joined a distributed job;
        else all."""
        if ranks := tuple(part for part in self.parts if part.kind == RANK):
            return ranks
        unfinished = self._source.unfinished
        ended = [part for part in self.parts if part not in unfinished]
        joined = tuple(part for part in ended if place_in_job(self._source.metadata(part))[1] > 1)
        return joined if len(joined) > 1 else self.parts

    @property
    def processes(self) -> Processes:
        """The processes with their exit status, also those without a recording."""
        processes = self._source.processes()
        return processes if self._has_all_parts else processes.only(self.parts)

    @property
    def unfinished(self) -> list[Partition]:
        """The processes with unfinished recordings."""
        unfinished = self._source.unfinished
        return [part for part in self.parts if part in unfinished]

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.parts)

    def __contains__(self, part: object) -> bool:
        try:
            return self._part(part) in self._part_set
        except UsageError:  # no process can be called so
            return False

    def __getitem__(self, part: SupportsIndex | Partition) -> Trace:
        """The trace of one process, by rank number or ``Partition``."""
        with addresses_in_errors():
            chosen = self._chosen_part(part)
            return Trace.of(self._source.load(chosen))

    def traces(
        self, when_unreadable: Callable[[Partition, TraceFormatError], object] | None = None
    ) -> Iterator[tuple[Partition, Trace]]:
        """Iterate over processes and their traces; does not keep the traces in memory.

        ``when_unreadable`` is called with a process and the error if its trace is damaged, and the
        process is skipped. None: raise the error.
        """
        self._source.prepare(self.parts)
        for part in self.parts:
            try:
                trace = Trace.of(self._source.load(part))
            except TraceFormatError as error:
                if when_unreadable is None:
                    raise self._unreadable(part, str(error)) from error
                when_unreadable(part, error)
            else:
                yield part, trace

    def missing_ranks(self) -> str:
        """Text that names the missing ranks; usually empty."""
        recorded = [part.number for part in self._source.parts if part.kind == RANK]
        ranks = self.ranks
        if not ranks:
            return ""
        return missing_beside(self._source.metadata(Partition(RANK, ranks[0])), recorded)

    def ranks_of_another_job(self) -> str:
        """Sentence that names ranks of an earlier job in the folder; usually empty."""
        unfinished = self._source.unfinished
        finished = [part for part in self.parts if part.kind == RANK and part not in unfinished]
        return of_another_job({part.number: self._source.metadata(part) for part in finished})

    def incomplete(self) -> tuple[Partition, ...]:
        """Processes with dropped events, or with data that only a newer opscope can read, without
        unreadable processes; ``query("losses")`` has the details. Computes missing rollups."""
        self._source.prepare(self.parts)
        rollups = self._rolled_up.there(self._source.folders())
        incomplete_parts = []
        for part in self.parts:
            with suppress(TraceFormatError):
                kept = rollups.get(part)
                lost = self._source.load(part).ledger.missing() if kept is None else kept.mark.lost
                incomplete_parts += [part] if lost else []
        return tuple(incomplete_parts)

    def findings(self, which: Which | str = Which.STEADY) -> list[SharedFinding]:
        """Findings of all processes; equal findings are merged."""
        return shared_findings(
            {part: find_findings(trace, which=which) for part, trace in self._with_events()}
        )

    def account(self, which: Which | str = Which.STEADY) -> ComparedAccounts:
        """Time by cause of all processes, side by side."""
        period = find_which(which)
        return compare_rollups(self._some_rollups(), period)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all processes into one opscope folder, which loads much faster than files of other
        tools. Once all are written, they replace an earlier trace there. Returns ``path``.

        Raises:
            TraceFormatError: a process cannot be read.
            UsageError: ``path`` is this job's folder, a file, or contains other files.
        """
        target = Path(os.fsdecode(path))
        if target.resolve() == self.path.resolve():
            raise UsageError(f"{target} is the job itself. Choose another folder.")
        with all_parts_of(target) as unfinished:
            for part, trace in self.traces():
                trace.save(unfinished, **{part.kind: part.number})
        return target

    def steps(self) -> RankSteps:
        """Step times of all ranks, or of all processes without ranks, with and without waits."""
        return rank_steps(self.only(self.compared)._some_rollups())

    @property
    def most_recorded(self) -> Partition:
        """The process with most events, of those that :attr:`compared` has."""
        rows = self.processes.rows_of
        return max(self.compared, key=lambda part: rows(part, "events"))

    def verdict(self) -> Verdict:
        """The verdict: the rank that the others wait for; without one, the verdict on the process
        with most events."""
        most = self.most_recorded
        return job_verdict(self.slow_ranks().found, lambda: self[most].verdict(), str(most))

    def slow_ranks(self) -> SlowRanks:
        """The ranks that the others wait for, how often, and where in the program."""
        steps = rank_steps(self.only(self.compared)._rollups())
        silent = sorted({*self.compared} - {*steps.processes})
        slow = find_slow_ranks(steps, self._places, silent)
        others = filter(None, [self.ranks_of_another_job()])
        return replace(slow, notes=(*slow.notes, *others))

    def collectives(self) -> JobCollectives:
        """Collectives that several ranks recorded: waits and the rank that caused each, transfer
        times, bytes, bandwidths; and the clock error."""
        rollups = self.only(self.compared)._rollups()
        return collectives_together(
            {p: (one.collectives(), self._source.metadata(p)) for p, one in rollups.items()}
        )

    def critical_path(self) -> RankPath:
        """The critical path through all ranks, with the time in each rank."""
        return rank_path(self.collectives())

    def query(
        self,
        question: JobQuestion | str,
        engine: EngineName | str = EngineName.DUCKDB,
        limit: int | None = None,
        master: str | None = None,
    ) -> JobAnswer:
        """Query the rollups of all :attr:`compared` processes together.

        Missing rollups are computed and stored beside the traces, as by ``opscope ranks --rollup``.

        Args:
            question: ``ranks``, ``steps``, ``operators``, ``modules``, ``lines``, ``spread``,
                ``causes``, ``memory`` or ``losses``.
            engine: ``duckdb``, in this process; or ``spark``, with the same results.
            limit: maximum number of rows; None for all.
            master: Spark master; None for ``OPSCOPE_SPARK_MASTER``, or else this machine. If the
                program has a Spark session, that is used.

        Returns:
            Ordered rows; times are nanoseconds, sizes bytes.

        Raises:
            MissingDependencyError: Ibis or the engine is not installed.
            TraceFormatError: a process cannot be read, or none has an event.
            UsageError: there is no such question or engine, or the engine is not reachable.
        """
        from opscope.jobs.questions.answer import query_job  # imports PyArrow

        job_question = one_of(JobQuestion, question, "question")
        chosen_engine = one_of(EngineName, engine, "engine")
        rollups = self.only(self.compared)._some_rollups()
        answer = query_job(job_question, rollups, chosen_engine, limit, master)
        return replace(answer, silent=tuple(p for p in self.compared if p not in rollups))

    def sql(self, statement: str, read_only: bool = False) -> Any:
        """Run SQL on all processes; every table has the columns ``rank`` and ``process``.

        Args:
            statement: for DuckDB, over the tables that ``Trace.sql`` has.
            read_only: whether it can reach nothing but these tables.

        Returns:
            A ``duckdb.DuckDBPyRelation``.

        Raises:
            TraceFormatError: a process cannot be read.
            UsageError: the statement does not run, or returns no rows.
        """
        from opscope.storage.sql_on_disk import query_several, tables_of  # imports DuckDB

        folders = self._folders(save_part)
        tables = {
            part: self._readable(lambda part: tables_of(folders[part]), part) for part in self.parts
        }
        return query_several(tables, statement, read_only)

    def together(self) -> Trace:
        """All processes as one trace on one clock, for timelines, with an arrow to every rank that
        waited in a collective; without memory."""
        from opscope.jobs.merged_trace import traces_together

        entries = {entry.partition: entry for entry in self.processes.entries}
        traces = [
            (entries.get(part) or ProcessEntry(0, partition=part), trace)
            for part, trace in self._with_events()
        ]
        return Trace.of(traces_together(traces))

    def only(self, parts: Iterable[SupportsIndex | Partition]) -> Job:
        """Copy of the job with some of its processes; shares the data that was already read."""
        copied = copy(self)
        copied._choose(parts)
        return copied

    def _choose(self, parts: Iterable[SupportsIndex | Partition]) -> None:
        chosen = {self._chosen_part(part) for part in parts}
        if not chosen:
            raise UsageError("None of the job's processes was chosen. Name at least one.")
        self._has_all_parts = self._has_all_parts and len(chosen) == len(self.parts)
        self.parts = tuple(part for part in self.parts if part in chosen)
        for cached in ("compared", "_part_set"):
            vars(self).pop(cached, None)

    def _rollups(self) -> dict[Partition, Rollup]:
        """Rollups of all processes with events; missing ones are computed."""
        rollups = self._rolled_up.all(self._folders(save_trace), self._unreadable)
        return {part: rollup for part, rollup in rollups.items() if rollup.mark.events}

    def _folders(self, save: Callable[..., Path]) -> dict[Partition, Path]:
        """Folders with the traces of all processes; ``save`` writes those that are not on disk."""
        self._source.prepare(self.parts)
        unfinished, folders = self._source.unfinished, self._source.folders()

        def saved(part: Partition) -> Path:
            return self._rolled_up.saved(
                part, lambda into: save(self._load(part), into, part), part in unfinished
            )

        return {part: folders[part] if part in folders else saved(part) for part in self.parts}

    def _some_rollups(self) -> dict[Partition, Rollup]:
        rollups = self._rollups()
        if not rollups:
            raise self._without_events()
        return rollups

    def _places(self, part: Partition) -> ProcessPlaces:
        return self.only([part])._rollups()[part].places()

    def _with_events(self) -> Iterator[tuple[Partition, Trace]]:
        has_events = False
        for part, trace in self.traces():
            if not trace.is_empty:
                has_events = True
                yield part, trace
        if not has_events:
            raise self._without_events()

    def _without_events(self) -> TraceFormatError:
        return TraceFormatError(
            f"{self.path} contains no events. Record a program that runs torch operators."
        )

    def _load(self, part: Partition) -> Trace:
        return Trace.of(self._readable(self._source.load, part))

    def _readable(self, read: Callable[[Partition], _Known], part: Partition) -> _Known:
        try:
            return read(part)
        except TraceFormatError as error:
            raise self._unreadable(part, str(error)) from error

    def _unreadable(self, part: Partition, why: str) -> UnreadableProcessError:
        return UnreadableProcessError(or_others(why, part, self.parts), part, why)

    def _chosen_part(self, part: object) -> Partition:
        chosen = self._part(part)
        if chosen not in self._part_set:
            raise UsageError(f"{self.path} has no {chosen}. It contains: {listed(self.parts)}.")
        return chosen

    @cached_property
    def _part_set(self) -> frozenset[Partition]:
        # ``parts`` as a set, for fast lookups.
        return frozenset(self.parts)

    def _part(self, part: object) -> Partition:
        if isinstance(part, Partition):
            return part
        try:
            return Partition(RANK, operator.index(part))  # type: ignore[arg-type]
        except TypeError:
            raise UsageError(
                f"A process is chosen by its rank or its Partition; {part!r} is neither."
            ) from None

    def _repr_html_(self) -> str:
        return self.verdict()._repr_html_()

    def __repr__(self) -> str:
        return f"<Job {with_addresses(str(self.path))}: {parts_text(self.parts, len(self.parts))}>"
