"""``Trace``: one recording with its views, analyses and exports. Each method imports what it needs
when it is called, so that programs that only record import less."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.columns.trace_data import TraceData

if TYPE_CHECKING:
    from opscope.analysis.account.account import Account
    from opscope.analysis.compiled_code import CompiledCode
    from opscope.analysis.critical_path.path import CriticalPath
    from opscope.analysis.critical_path.what_if import WhatIf
    from opscope.analysis.device_use.device_use import DevicesUse
    from opscope.analysis.engine_steps import EngineSteps
    from opscope.analysis.memory.peak import PeakMemory
    from opscope.analysis.requests import Requests
    from opscope.analysis.roofline.peaks import Peaks
    from opscope.analysis.roofline.roofline import Roofline
    from opscope.findings.finding import Findings
    from opscope.findings.summary import Summary
    from opscope.findings.verdict import Verdict
    from opscope.timeline.step_times import StepTimes
    from opscope.timeline.tree.node import Tree


class Trace(TraceData):
    """One recording, with its analyses.

    A trace comes from opscope's recorder, from an opscope folder, or from a Chrome JSON file of any
    tool; all methods work for all of them. Methods with a ``period`` use that part, see
    :meth:`period`; an unknown name is a ``UsageError``.
    """

    @classmethod
    def of(cls, data: TraceData) -> Trace:
        """A trace of ``data``; copies nothing, and shares cached results."""
        if isinstance(data, cls):
            return data
        trace = cls.__new__(cls)
        trace.__dict__ = data.__dict__
        return trace

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def tree(self) -> Tree:
        """The events as a tree, whose nodes are made when they are visited."""
        from opscope.timeline.tree.node import Tree

        return Tree(self)

    def peak_memory(self, device: str | None = None) -> PeakMemory:
        """Peak memory of a device, broken down by owner.

        Needs ``profile_memory``. ``record_shapes`` adds categories and memory from before the
        recording, ``with_modules`` modules, ``with_stack`` stacks.

        Args:
            device: such as ``cpu`` or ``cuda:0``; None is the accelerator with the highest peak or,
            without one, the CPU.

        Raises:
            UsageError: memory was not recorded, or ``device`` has no memory events.
        """
        from opscope.analysis.memory.peak import memory_at_peak

        return memory_at_peak(self, device)

    def period(self, which: str = "steady") -> Trace:
        """Part of this recording, as a trace. opscope's own views use the steady state by default.
        Spans that cross the begin are cut there; earlier allocations are not included.

        Args:
            which: ``start-up`` is imports, first allocations and the first step; ``steady`` is the
                rest without the shut-down; ``all`` is this trace. A recording with a schedule or
                without steps is all steady. If only some steps were recorded in detail, ``steady``
                and ``start-up`` have no detail.

        Raises:
            UsageError: there is no such part.
        """
        from opscope.timeline.period import period_of

        return Trace.of(period_of(self, which).trace)

    def findings(self, benchmark: bool = False, period: str = "steady") -> Findings:
        """Findings: known performance problems, each with place, fix and estimated saving.

        ``saved_by`` says how a saving is estimated. Savings do not add up, because one fix can
        remove the saving of another. For a steady state of more than 500,000 events, findings,
        verdict and account cover a typical stretch of it, as their ``about`` says.

        Args:
            benchmark: run the current and the fixed code with torch on this machine, where this is
                possible, and scale the saving accordingly. Takes seconds.
            period: part of the recording, as in :meth:`period`.

        Raises:
            UsageError: there is no such period.
            MissingDependencyError: ``benchmark`` without torch.
        """
        from opscope.findings.find import find_findings

        return find_findings(self, benchmark, which=period)

    def verdict(self, period: str = "steady") -> Verdict:
        """The verdict: is this program slow, and why. ``status`` is ``healthy``, the main problem,
        or that the recording is not sufficient. ``lines()`` is text, ``as_dict()`` for programs,
        ``metrics()`` plain numbers for experiment trackers. Notebooks display it."""
        from opscope.findings.verdict import find_verdict

        return find_verdict(self, period)

    def summary(self, period: str = "steady") -> Summary:
        """The verdict and the names with most self time, for ``print`` and notebooks."""
        from opscope.findings.summary import summary_of

        return summary_of(self, period)

    def steps(self) -> StepTimes:
        """One row per step of the program: duration, and time by cause.

        Steps are what ``prof.step()`` marks; else they end with the optimizer's ``step()``, or
        begin with a call of the network. Arrays of shape (steps,), nanoseconds.
        """
        from opscope.timeline.step_times import step_times
        from opscope.timeline.steps import program_steps

        steps, what = program_steps(self)
        return step_times(self, steps=steps if what else None)

    def engine_steps(self) -> EngineSteps:
        """The steps of vLLM or SGLang by their spans: phase, requests, tokens, and slow ones.

        Empty in traces of other programs. Arrays of shape (steps,), nanoseconds.
        """
        from opscope.analysis.engine_steps import find_engine_steps

        return find_engine_steps(self)

    def requests(self) -> Requests | None:
        """Requests that :class:`opscope.serve.MarkRequests` marked: their durations, and the waits
        of typical and slowest requests, in nanoseconds. None without marked requests."""
        from opscope.analysis.requests import find_requests

        return find_requests(self)

    def account(self, period: str = "steady") -> Account:
        """Wall time of every thread and device by cause.

        Causes: operators, torch call overhead, Python, garbage collection, imports, compilation,
        waits (DataLoader, lock, GIL, device, other ranks, files, sleep, CPU), first use of memory,
        opscope itself, unknown. Times are wall nanoseconds. Those of a thread add up to each step
        and to ``wall_ns``. ``error_ns`` is the error of estimated times.
        """
        from opscope.analysis.account.find import find_account

        return find_account(self, period)

    def critical_path(self, period: str = "steady") -> CriticalPath:
        """The critical path: the longest chain of work in which each part waited for the one
        before: on the same thread or stream, for another thread or device, or for its launch.
        ``slack_ns`` of an event is the time by which it could be longer without delaying the end.
        The path is as long as the period; times are wall nanoseconds."""
        from opscope.analysis.critical_path.path import find_critical_path

        return find_critical_path(self, period)

    def what_if(self, factors: Mapping[str, float], period: str = "steady") -> WhatIf:
        """Estimate the step time if parts of the program took a different time.

        ``trace.what_if({"aten::mm": 0.5})`` replays the recorded dependencies with every
        ``aten::mm``, including inner calls, taking half as long. Work that is hidden behind other
        work saves nothing. Times are nanoseconds.

        Args:
            factors: part -> new time as a multiple of the recorded time. A part is the name of an
                operator, an annotation or a kernel, the path of a module, or a line of the program
                (``train.py:12``); modules and lines include their backward pass.

        Raises:
            UsageError: there is no such part or period, or a factor is negative.
        """
        from opscope.analysis.critical_path.what_if import find_what_if

        return find_what_if(self, factors, period)

    def roofline(self, peaks: Peaks | None = None, period: str = "steady") -> Roofline:
        """Roofline: achieved vs. peak FLOP/s and bandwidth per operator, and the limiting resource.

        For CPU operators with a formula; needs recorded shapes. The peak of the machine is measured
        once with torch, and stored.

        Args:
            peaks: peaks of the machine that the trace was recorded on; None measures this machine.

        Raises:
            UsageError: shapes were not recorded, or there is no such period.
            MissingDependencyError: measuring ``peaks`` needs torch, which is not installed.
        """
        from opscope.analysis.roofline.roofline import find_roofline

        return find_roofline(self, peaks, period)

    def device_use(self, period: str = "steady") -> DevicesUse:
        """Device utilisation: busy time, causes of idle time, work by operator and module. For each
        device: compute, communication and copy time, and the part hidden behind computing; idle
        time by cause (launch-bound, host, synchronisation, data, collective); launch delay and
        queue length of each stream; work without operator or module; estimated occupancy. Device
        time of every module, forward and backward, including CUDA graphs; reserved and used memory.
        Times are wall nanoseconds; ``notes`` name missing data."""
        from opscope.analysis.device_use.device_use import find_device_use

        return find_device_use(self, period)

    def compiled(self, period: str = "steady") -> CompiledCode:
        """Time in code that torch.compile generated, by source line of the program: of the kernels
        and operators that it calls, of the generated code itself, and time without a line. Times
        are wall nanoseconds."""
        from opscope.analysis.compiled_code import find_compiled_code

        return find_compiled_code(self, period)

    def export(self, format: str, path: str | os.PathLike[str]) -> None:
        """Write this trace for other tools.

        Args:
            format: ``chrome``, ``perfetto``, ``speedscope``, ``stacks``, ``execution-trace``,
                or ``memory-timeline``.
            path: file to write or replace; a name that ends in ``.gz`` compresses it.

        Raises:
            UsageError: there is no such format, the trace lacks its data, or ``path`` cannot be
                written.
        """
        from opscope.export.all_formats import export_trace

        export_trace(self, format, path)

    def save(
        self, path: str | os.PathLike[str], rank: int | None = None, process: int | None = None
    ) -> Path:
        """Write this trace as a folder of Parquet files; returns the folder of its rank.

        DuckDB, Polars, pandas and Spark can open ``path/rank=00000/events.parquet`` and the other
        files; ``opscope.load(path)`` reads the trace back. The rank defaults to the recording's;
        ``process`` is for processes without a rank (``path/process=01234``). Replaces an earlier
        opscope trace in ``path``.

        Raises:
            UsageError: ``path`` is a file, contains other files, or cannot be written.
            InsufficientMemoryError: there is not enough memory.
        """
        from opscope.jobs.saving import save_trace
        from opscope.storage.partition import chosen_partition

        return save_trace(self, path, chosen_partition(rank, process))

    def sql(self, statement: str, read_only: bool = False) -> Any:
        """Run a SELECT on the tables, without copies; returns a DuckDB relation.

        Every table of ``columns.schema`` and ``names`` (id, text) is available by its name, and
        ``named_events``: one row per event with name, kind, scope and thread as text, ``start_us``
        since the first event, ``duration_us``, parent and step. The relation prints as a table;
        ``.fetchall()``, ``.df()``, ``.pl()``, ``.to_arrow_table()`` return the rows; ``.filter()``,
        ``.order()`` or ``duckdb.sql("... from relation")`` query them further.

        A statement can do what DuckDB can: read and write any file, attach databases, load
        extensions. For statements from others, set ``read_only``.

        Args:
            statement: one SELECT.
            read_only: no files, no network, no extensions, no variables of Python, and limits of
                time (60 s), memory (1 GiB) and the size of the result (256 MiB).

        Raises:
            UsageError: the statement is not valid, fails, is not a SELECT, or is not permitted with
                ``read_only``.
        """
        from opscope.storage.sql import query

        return query(self, statement, read_only)

    def to_arrow(self, table: str = "events", text: bool = True) -> Any:
        """One table (or ``"names"``) as a ``pyarrow.Table``.

        With ``text``, rows of ``names`` and codes (kinds, dtypes, ...) become dictionary-encoded
        text, and -1 becomes null; else columns share the trace's arrays if Arrow can.

        Raises:
            UsageError: there is no such table.
        """
        from opscope.storage.interop import to_arrow

        return to_arrow(self, table, text)

    def to_pandas(self, table: str = "events", text: bool = True) -> Any:
        """One table as a ``pandas.DataFrame``; text columns are categorical. See `to_arrow`.

        Raises:
            MissingDependencyError: pandas is not installed.
            UsageError: there is no such table.
        """
        from opscope.storage.interop import to_pandas

        return to_pandas(self, table, text)

    def to_polars(self, table: str = "events", text: bool = True) -> Any:
        """One table as a ``polars.DataFrame``; text columns are categorical. See `to_arrow`.

        Raises:
            MissingDependencyError: polars is not installed.
            UsageError: there is no such table.
        """
        from opscope.storage.interop import to_polars

        return to_polars(self, table, text)
