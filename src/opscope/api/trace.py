"""What users hold of one recording: its data, and what can be asked of it.

Each method hands over to the room that answers, and imports it when it is called: a program that
only records does not wait for what it never asks.
"""

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
    from opscope.analysis.memory.peak import PeakMemory
    from opscope.analysis.roofline.peaks import Peaks
    from opscope.analysis.roofline.roofline import Roofline
    from opscope.findings.finding import Findings
    from opscope.findings.summary import Summary
    from opscope.findings.verdict import Verdict
    from opscope.timeline.step_times import StepTimes
    from opscope.timeline.tree.node import Tree


class Trace(TraceData):
    """What one recording holds, whatever made it.

    A trace comes from opscope's recorder, from our files on disk, or from another tool's Chrome
    JSON; every view and analysis takes any of them. Methods with a ``period`` look at that part of
    it, as :meth:`period` names them; another name is a ``UsageError``.
    """

    @classmethod
    def of(cls, data: TraceData) -> Trace:
        """``data``, to be asked; nothing is copied, and what was derived of it stays known."""
        if isinstance(data, cls):
            return data
        trace = cls.__new__(cls)
        trace.__dict__ = data.__dict__
        return trace

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def tree(self) -> Tree:
        """The events as a tree of nodes; costs nothing until it is walked."""
        from opscope.timeline.tree.node import build_tree

        return build_tree(self)

    def peak_memory(self, device: str | None = None) -> PeakMemory:
        """Peak memory of a device, broken down by owner.

        Of a trace recorded with ``profile_memory``; with ``record_shapes`` categories are known and
        memory from before is found by its use; with ``with_modules`` modules, with ``with_stack``
        stacks too.

        Args:
            device: such as ``cpu`` or ``cuda:0``; None is the fullest accelerator or, without one,
                the CPU.

        Raises:
            UsageError: memory was not recorded, or nothing was allocated, freed or used there.
        """
        from opscope.analysis.memory.peak import memory_at_peak

        return memory_at_peak(self, device)

    def period(self, which: str = "steady") -> Trace:
        """Part of this recording, as a trace that every view and analysis takes.

        The steady state is what opscope's own views speak of by default. What still ran when the
        part begins is cut there, and what was allocated before is not in it.

        Args:
            which: ``steady`` is the recording without its start-up (imports, what is made once, the
                first step), ``start-up`` that alone, ``all`` this trace. A recording that was
                scheduled, or whose steps cannot be told, has no start-up and is steady. Of one with
                some steps in detail, either has what was recorded throughout alone.

        Raises:
            UsageError: there is no such part.
        """
        from opscope.timeline.period import period_of

        return Trace.of(period_of(self, which).trace)

    def findings(
        self, benchmark: bool = False, name: str | None = None, period: str = "steady"
    ) -> Findings:
        """Why is this program slow? All patterns that the trace shows, with what a fix would save.

        Estimates are derived from the recording and say how; they do not add up, as one fix can
        take away what another would have saved.

        Args:
            benchmark: where a pattern can be measured, run it with and without the fix, in torch on
                this machine, and scale by that. Takes seconds.
            name: a regular expression; all events whose names it matches are one more finding.

        Raises:
            UsageError: ``name`` is no regular expression, or there is no such period.
            MissingDependencyError: ``benchmark`` without torch.
        """
        from opscope.findings.find import find_findings

        return find_findings(self, benchmark, name, which=period)

    def verdict(self, period: str = "steady") -> Verdict:
        """Is this program slow, and why? One answer, weighed from everything that was recorded.

        Its ``status`` is ``healthy``, what makes the program slow, or that the recording cannot
        tell; ``lines()`` is the answer for people, ``as_dict()`` for programs, ``metrics()`` flat
        numbers for experiment trackers. In a notebook it shows itself.
        """
        from opscope.findings.verdict import find_verdict

        return find_verdict(self, period)

    def summary(self, period: str = "steady") -> Summary:
        """The verdict and the names with most time of their own, for ``print`` and notebooks.

        Args:
            period: what to look at, as in :meth:`period`.

        Raises:
            UsageError: there is no such period.
        """
        from opscope.findings.summary import summary_of

        return summary_of(self, period)

    def steps(self) -> StepTimes:
        """One row per step of the program: how long it took, and what the time went to.

        Steps are what ``prof.step()`` marks; else they end with the optimizer's ``step()``, or
        begin with a call of the network. Arrays of shape (steps,), nanoseconds.
        """
        from opscope.timeline.step_times import step_times
        from opscope.timeline.steps import program_steps

        steps, what = program_steps(self)
        return step_times(self, steps=steps if what else None)

    def account(self, period: str = "steady") -> Account:
        """Wall time of every thread and device by cause; the causes add up to it.

        Operators, torch around them, Python, collections, imports and compilation, waiting for a
        loader, a lock, the GIL, a device, other ranks, files, time to pass or a processor, memory
        handed out by the kernel, opscope itself, and what is unknown. Times are nanoseconds on the
        clock; those of one thread and step add up to the step, and all of a thread to ``wall_ns``.
        Where a share was estimated, ``error_ns`` says how much may belong elsewhere.
        """
        from opscope.analysis.account.find import find_account

        return find_account(self, period)

    def critical_path(self, period: str = "steady") -> CriticalPath:
        """The critical path: the longest chain of what waited for what.

        Threads do one thing after the other; a wait is over when the thread or the device that it
        was for is done, as far as that was seen; a device's work comes after its launch and after
        earlier work. ``slack_ns`` says of every event how much longer it could have taken without
        anything ending later. The path is as long as the time looked at, nanoseconds on the clock.
        """
        from opscope.analysis.critical_path.path import find_critical_path

        return find_critical_path(self, period)

    def what_if(self, factors: Mapping[str, float], period: str = "steady") -> WhatIf:
        """What a step would take if parts of the program took a different time.

        ``trace.what_if({"aten::mm": 0.5})`` replays the recording with every ``aten::mm``, and all
        that runs in it, taking half as long: what others wait for moves with it, and what is hidden
        behind something else saves nothing. Times are nanoseconds.

        Args:
            factors: by part, what it would take as a multiple of what it took. A part is the name
                of an operator, an annotation or a kernel, the path of a module, a line of the
                program (``train.py:12``), of both with their backward pass.

        Raises:
            UsageError: nothing is called that, a factor is below 0, or there is no such period.
        """
        from opscope.analysis.critical_path.what_if import find_what_if

        return find_what_if(self, factors, period)

    def roofline(self, peaks: Peaks | None = None, period: str = "steady") -> Roofline:
        """Roofline: achieved vs. peak FLOP/s and bandwidth per operator, and the limiting resource.

        Of operators on the CPU whose least work is known from the shapes of their arguments, which
        have to be recorded. What the machine can do is measured once, with torch, and kept.

        Args:
            peaks: of the machine that the trace was recorded on; measured on this one unless given.

        Raises:
            UsageError: shapes were not recorded, or there is no such period.
            MissingDependencyError: ``peaks`` are to be measured without torch.
        """
        from opscope.analysis.roofline.roofline import find_roofline

        return find_roofline(self, peaks, period)

    def device_use(self, period: str = "steady") -> DevicesUse:
        """How busy devices were, why they were idle, and whose work they did.

        For each device: time in which it computed, communicated and copied, and what of that was
        hidden behind computing; idle time by cause (launch-bound, the host, a synchronisation,
        data, a collective); how long launches wait in each stream and how many; work without an
        owner; an estimate of occupancy. Then device time of every module, forward and backward, of
        CUDA graphs too, and memory reserved against used. Times are nanoseconds on the clock;
        ``notes`` say what was not recorded.
        """
        from opscope.analysis.device_use.device_use import find_device_use

        return find_device_use(self, period)

    def compiled(self, period: str = "steady") -> CompiledCode:
        """Where does the time go in what torch.compile generated?

        Every kernel and operator that it calls, with the lines of the program that it does the work
        of; the time in between, which is generated code's own; and what nothing says a line of.
        Times are nanoseconds on the clock.
        """
        from opscope.analysis.compiled_code import find_compiled_code

        return find_compiled_code(self, period)

    def export(self, format: str, path: str | os.PathLike[str]) -> None:
        """Write this trace for other tools.

        Args:
            format: ``chrome``, ``perfetto``, ``speedscope``, ``stacks``, ``execution-trace``,
                or ``memory-timeline``.
            path: of the file, which is replaced; a name that ends in ``.gz`` compresses it.

        Raises:
            UsageError: there is no such format, the trace has nothing that it could show, or
                ``path`` cannot be written.
        """
        from opscope.export.formats import export_trace

        export_trace(self, format, path)

    def save(
        self, path: str | os.PathLike[str], rank: int | None = None, process: int | None = None
    ) -> Path:
        """Write this trace as a folder of Parquet files; returns the folder of its rank.

        ``path/rank=00000/events.parquet`` and its like open as they are in DuckDB, Polars, pandas
        and Spark; ``opscope.load(path)`` gives the trace back. The rank is the recording's own,
        unless given; with ``process`` it is one of several processes without a rank
        (``path/process=01234``). An earlier opscope trace in ``path`` is replaced, anything else is
        refused.

        Raises:
            UsageError: ``path`` is a file, holds something else, or cannot be written.
            InsufficientMemoryError: it takes more memory than there is, or the process may have.
        """
        from opscope.jobs.saving import save_trace
        from opscope.storage.partition import asked_partition

        return save_trace(self, path, asked_partition(rank, process))

    def sql(self, statement: str, read_only: bool = False) -> Any:
        """Run a SELECT over the tables, where they lie; returns its rows as a DuckDB relation.

        Every table of ``columns.schema`` and ``names`` (id, text) is there by its name, and
        ``named_events``: one row per event with name, kind, scope and thread as text, ``start_us``
        since the first event, ``duration_us``, parent and step. The relation prints as a table;
        ``.fetchall()``, ``.df()``, ``.pl()``, ``.to_arrow_table()`` give the rows, and
        ``.filter()``, ``.order()`` or ``duckdb.sql("... from relation")`` go on from them.

        A statement can do what DuckDB can: read and write any file, attach databases, load
        extensions. Do not run one that you would not run as a program, or set ``read_only``.

        Args:
            statement: one SELECT.
            read_only: no files, no network, no extensions, no variables of Python, and bounds on
                time (60 s), memory (1 GiB) and the size of the result (256 MiB): for statements
                of others, as in a service.

        Raises:
            UsageError: the statement is not valid, fails, is not a SELECT, or does more than
                ``read_only`` allows.
        """
        from opscope.storage.sql import query

        return query(self, statement, read_only)

    def to_arrow(self, table: str = "events", text: bool = True) -> Any:
        """One table (or ``"names"``) as a ``pyarrow.Table``.

        With ``text``, rows of ``names`` and codes (kinds, dtypes, ...) become dictionary-encoded
        text, -1 becomes null; without, columns are the trace's own arrays, shared where Arrow can.

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
