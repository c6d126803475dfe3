"""Time in code that torch.compile generated, by source line.

A compiled graph runs as generated code, which calls kernels, each for several lines in one loop,
and operators. Each call has a line in the generated file, and the trace has the origins of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.base.shown_result import ShownResult
from opscope.columns.codes import CompilationKind, EventKind, OriginsKnownFrom
from opscope.columns.location import Location
from opscope.columns.trace_data import TraceData
from opscope.storage.partition import Partition
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.period import find_which, period_of
from opscope.timeline.tree.event_tree import event_tree, minus_children, nearest_ancestor


@dataclass(frozen=True)
class CompiledLine(Location):
    """A line of the program whose work a call in generated code does."""

    module: str = ""  # path of its module; empty for the outermost module, or if unknown
    operators: tuple[str, ...] = ()  # operators that the line called there, such as ``aten.relu``


@dataclass(frozen=True)
class CompiledCall:
    """One call in generated code, of a kernel or an operator.

    Attributes:
        graph: inductor's name of the graph: ``0_forward``.
        callee: the kernel or operator, as written in the generated file.
        file: the generated file.
        line: line of the call in that file.
        calls: number of calls.
        time_ns: total time of the calls.
        prepared_ns: time of generated code before the calls, which makes and checks their tensors,
            and after the last call of a graph.
        lines: lines of the program, in the order of the graph; empty if unknown.
        known_from: the source of the lines.
    """

    graph: str
    callee: str
    file: str
    line: int
    calls: int
    time_ns: int
    prepared_ns: int
    lines: tuple[CompiledLine, ...]
    known_from: OriginsKnownFrom


@dataclass(frozen=True)
class LineTime:
    """Time of one line of the program in generated code.

    Attributes:
        line: the line, with all operators that it called.
        time_ns: time of its calls; several lines share a call by their numbers of operations.
        kernels: the calls that do work of the line.
    """

    line: CompiledLine
    time_ns: int
    kernels: tuple[str, ...]


@dataclass(frozen=True)
class CompilationEvent:
    """A compilation, recompilation, graph break or failure of torch.compile.

    Attributes:
        kind: which of these it is.
        function: the compiled function.
        file: file of the function, or of the graph break.
        line: first line of the function, or line of the graph break; -1 if unknown.
        reason: reason of the recompilation, graph break or failure.
        start_ns: Unix time.
        duration_ns: duration of the compilation.
        while_recording: whether it happened during the recording.
        from_cache: whether its code came from inductor's cache.
    """

    kind: CompilationKind
    function: str
    file: str
    line: int
    reason: str
    start_ns: int
    duration_ns: int
    while_recording: bool
    from_cache: bool


@dataclass(frozen=True)
class CompiledCode(ShownResult):
    """All time in graphs that torch.compile generated code for.

    Attributes:
        calls: calls of kernels and operators by generated code, those with most time first.
        graphs: number of runs of graphs.
        graphs_ns: time in graphs: the sum of ``calls`` and ``own_ns``.
        own_ns: time of generated code itself: ``prepared_ns``, and graphs without calls.
        wall_ns: duration of the period.
        was_recorded: whether compiled code was recorded.
        compilations: compilations of the process, in order, also before the recording.
    """

    calls: tuple[CompiledCall, ...]
    graphs: int
    graphs_ns: int
    own_ns: int
    wall_ns: int
    was_recorded: bool
    compilations: tuple[CompilationEvent, ...] = ()

    @property
    def graph_breaks(self) -> tuple[CompilationEvent, ...]:
        """The graph breaks."""
        return self._of(CompilationKind.GRAPH_BREAK)

    @property
    def recompilations(self) -> tuple[CompilationEvent, ...]:
        """The recompilations."""
        return self._of(CompilationKind.RECOMPILATION)

    def _of(self, kind: CompilationKind) -> tuple[CompilationEvent, ...]:
        return tuple(one for one in self.compilations if one.kind is kind)

    @property
    def unknown(self) -> tuple[CompiledCall, ...]:
        """Calls without a known line."""
        return tuple(call for call in self.calls if not call.lines)

    @property
    def coverage(self) -> float:
        """Share of the time in kernels and operators that has a line; 1 without any."""
        total = sum(call.time_ns for call in self.calls)
        return 1 - sum(call.time_ns for call in self.unknown) / total if total else 1.0

    @property
    def coverage_of_graphs(self) -> float:
        """``coverage`` of all time in graphs; generated code counts for the calls it prepares."""
        known = sum(call.time_ns + call.prepared_ns for call in self.calls if call.lines)
        return known / self.graphs_ns if self.graphs_ns else 1.0

    @property
    def lines(self) -> tuple[LineTime, ...]:
        """Time by line of the program, largest first."""
        return _by_line(self.calls)

    def as_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        rows = [asdict(call) | {"known_from": call.known_from.name} for call in self.calls]
        known = {name: getattr(self, name) for name in ("graphs", "graphs_ns", "own_ns", "wall_ns")}
        done = [asdict(one) | {"kind": one.kind.name.lower()} for one in self.compilations]
        return {**known, "calls": rows, "compilations": done, **self._shares()}

    def _shares(self) -> dict[str, float]:
        return {"coverage": self.coverage, "coverage_of_graphs": self.coverage_of_graphs}


def find_compiled_code(trace: TraceData, which: str = "steady") -> CompiledCode:
    """Time of each call in generated code; see :meth:`opscope.Trace.compiled`."""
    period = period_of(trace, find_which(which))
    part = period.trace
    graph = part.events["kind"] == EventKind.COMPILED_GRAPH
    tree = event_tree(part)
    placed = _Placed.of(part)
    outermost = graph & (nearest_ancestor(tree.parent, graph) < 0)
    innermost = nearest_ancestor(tree.parent, graph | placed.is_call)
    called = placed.is_call & (innermost >= 0) & graph[innermost]
    around = nearest_ancestor(tree.parent, graph | called)
    inside = (graph | called) & ((around >= 0) | graph)
    self_ns = minus_children(np.where(inside | outermost, around, -1), tree.duration_ns)
    return CompiledCode(
        calls=_calls(part, placed, np.flatnonzero(called), around),
        graphs=int(graph.sum()),
        graphs_ns=int(tree.duration_ns[outermost].sum()),
        own_ns=int(self_ns[graph].sum()),
        wall_ns=period.wall_ns,
        was_recorded=bool(trace.metadata.get("options", {}).get("compiled", False)),
        compilations=_compilations(trace),
    )


def _compilations(trace: TraceData) -> tuple[CompilationEvent, ...]:
    table, names = trace.table("compilations"), trace.names
    begun_ns = trace.metadata.get("start_ns", 0)
    columns = (table[column.name].tolist() for column in table.schema.columns)
    return tuple(
        CompilationEvent(
            kind=CompilationKind(kind),
            function=names[function],
            file=names[file],
            line=line,
            reason=names[reason],
            start_ns=start_ns,
            duration_ns=duration_ns,
            while_recording=start_ns >= begun_ns,
            from_cache=from_cache,
        )
        for kind, start_ns, duration_ns, _, function, file, line, reason, from_cache in zip(
            *columns, strict=True
        )
    )


@dataclass(frozen=True, eq=False)
class _Placed:
    """Position in a generated file from which every event was called. Shapes (events,)."""

    file: Values  # row in names of the generated file; -1 for none
    line: Values  # line in that file
    is_call: Flags  # called from there, and not the function that runs the graph

    @classmethod
    def of(cls, trace: TraceData) -> _Placed:
        events, frames = len(trace.events), trace.table("frames")
        calls = trace.table("python_calls")
        file = np.full(events, -1, dtype=np.int64)
        line = np.full(events, -1, dtype=np.int64)
        of_graph = trace.events["kind"][calls["event"]] == EventKind.COMPILED_GRAPH
        generated = np.unique(frames["file"][calls["frame"][of_graph]])
        for table in (calls, trace.table("operator_calls")):
            rows = np.flatnonzero((table["caller"] >= 0) & (table["caller_line"] > 0))
            caller_file = frames["file"][table["caller"][rows]]
            is_generated = np.isin(caller_file, generated)
            rows = rows[is_generated]
            file[table["event"][rows]] = caller_file[is_generated]
            line[table["event"][rows]] = table["caller_line"][rows]
        _give_positions_to_callees(trace, file, line)
        is_call = file >= 0
        # With Python calls recorded, the function that runs the graph is one of them.
        known = calls["frame"] >= 0
        own = np.isin(frames["file"][calls["frame"][known]], generated)
        is_call[calls["event"][known][own]] = False
        return cls(file, line, is_call)


def _give_positions_to_callees(trace: TraceData, file: Values, line: Values) -> None:
    """Give events inside a C function its position; the C function is only Python's way to call."""
    of_c = trace.events["kind"] == EventKind.C_CALL
    parent = event_tree(trace).parent
    inner = np.flatnonzero((parent >= 0) & (file < 0))
    inner = inner[of_c[parent[inner]]]
    file[inner], line[inner] = file[parent[inner]], line[parent[inner]]
    file[of_c] = line[of_c] = -1


def _prepared_ns(trace: TraceData, called: Values, graph: Values) -> Values:
    """Time of the graph before every call outside other calls; for the last call also after it."""
    tree = event_tree(trace)
    order = np.lexsort((tree.start_ns[called], graph))
    start, around = tree.start_ns[called][order], graph[order]
    end = start + tree.duration_ns[called][order]
    is_first, is_last = np.ones((2, len(order)), dtype=np.bool_)
    is_first[1:] = is_last[:-1] = np.diff(around) != 0
    before = np.where(is_first, tree.start_ns[around], np.roll(end, 1))
    ends = np.where(is_last, tree.start_ns[around] + tree.duration_ns[around], end)
    result = np.zeros(len(order), dtype=np.int64)
    result[order] = np.maximum(start - before, 0) + np.maximum(ends - end, 0)
    return result


def _calls(
    trace: TraceData, placed: _Placed, called: Values, around: npt.NDArray[Any]
) -> tuple[CompiledCall, ...]:
    """A row for every position that ran, largest time first."""
    duration_ns = event_tree(trace).duration_ns
    key = placed.file[called] << 32 | placed.line[called]
    places, first, group = np.unique(key, return_index=True, return_inverse=True)
    time_ns = np.bincount(group, weights=duration_ns[called], minlength=len(places))
    counts = np.bincount(group, minlength=len(places))
    between_ns = _prepared_ns(trace, called, np.asarray(around[called], dtype=np.int64))
    prepared_ns = np.bincount(group, weights=between_ns, minlength=len(places))
    known = _recorded_sites(trace)
    rows = []
    for row, place in enumerate(places.tolist()):
        file, line = place >> 32, place & 0xFFFFFFFF
        site = known.get((file, line)) or _Site("", trace.event_name(int(called[first[row]])))
        rows.append(
            CompiledCall(
                graph=site.graph,
                callee=site.callee,
                file=trace.names[file],
                line=line,
                calls=int(counts[row]),
                time_ns=int(time_ns[row]),
                prepared_ns=int(prepared_ns[row]),
                lines=site.lines,
                known_from=site.known_from,
            )
        )
    return tuple(sorted(rows, key=lambda one: -one.time_ns))


@dataclass(frozen=True)
class _Site:
    graph: str
    callee: str
    lines: tuple[CompiledLine, ...] = ()
    known_from: OriginsKnownFrom = OriginsKnownFrom.NOTHING


def _recorded_sites(trace: TraceData) -> Mapping[tuple[int, int], _Site]:
    """Sites by file (a row of names) and line of the generated code."""
    sites, names = trace.table("compiled_sites"), trace.names
    lines = _lines_of_sites(trace)
    columns = (sites[name].tolist() for name in ("file", "line", "graph", "callee", "known_from"))
    return {
        (file, line): _Site(
            names[graph],
            names[callee],
            lines.get(site, ()),
            OriginsKnownFrom(known_from),
        )
        for site, (file, line, graph, callee, known_from) in enumerate(zip(*columns, strict=True))
    }


def _lines_of_sites(trace: TraceData) -> Mapping[int, tuple[CompiledLine, ...]]:
    table, names = trace.table("compiled_origins"), trace.names
    columns = ("site", "file", "line", "function", "module", "operator")
    by_site: dict[int, dict[tuple[int, int, int, int], dict[str, None]]] = {}
    for site, file, line, function, module, operator in zip(
        *(table[name].tolist() for name in columns), strict=True
    ):
        if file >= 0:
            lines = by_site.setdefault(site, {})
            lines.setdefault((file, line, function, module), {})[names[operator]] = None
    return {
        site: tuple(
            CompiledLine(names[file], line, names[function], names[module], tuple(ops))
            for (file, line, function, module), ops in lines.items()
        )
        for site, lines in by_site.items()
    }


def _by_line(calls: tuple[CompiledCall, ...]) -> tuple[LineTime, ...]:
    by_line: dict[tuple[str, int], list[tuple[CompiledLine, float, str]]] = {}
    for call in calls:
        operations = sum(len(line.operators) for line in call.lines)
        for line in call.lines:
            share = call.time_ns * len(line.operators) / max(operations, 1)
            by_line.setdefault((line.file, line.line), []).append((line, share, call.callee))
    rows = [
        LineTime(
            _joined([line for line, _, _ in parts]),
            round(sum(time_ns for _, time_ns, _ in parts)),
            tuple(dict.fromkeys(callee for _, _, callee in parts)),
        )
        for parts in by_line.values()
    ]
    return tuple(sorted(rows, key=lambda one: -one.time_ns))


def _joined(lines: list[CompiledLine]) -> CompiledLine:
    modules = dict.fromkeys(line.module for line in lines if line.module)
    operators = dict.fromkeys(operator for line in lines for operator in line.operators)
    return replace(lines[0], module=", ".join(modules), operators=tuple(operators))


@dataclass(frozen=True)
class SharedCompilation:
    """A graph break, or another compilation, of one line for one reason."""

    event: CompilationEvent  # the event in the first process that has it
    times: Mapping[Partition, int]  # number of events by process, in the order of processes

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        event = self.event
        values = {name: getattr(event, name) for name in ("function", "file", "line", "reason")}
        times = [{part.kind: part.number, "times": count} for part, count in self.times.items()]
        return {**values, "processes": times}


def shared_compilations(
    events: Mapping[Partition, Iterable[CompilationEvent]],
) -> list[SharedCompilation]:
    """Compilation events of all processes, most frequent first."""
    first: dict[tuple[str, str, int, str], CompilationEvent] = {}
    times: dict[tuple[str, str, int, str], dict[Partition, int]] = {}
    for part, own in events.items():
        for event in own:
            same = (event.function, event.file, event.line, event.reason)
            first.setdefault(same, event)
            counts = times.setdefault(same, {})
            counts[part] = counts.get(part, 0) + 1
    found = [SharedCompilation(first[same], counts) for same, counts in times.items()]
    return sorted(found, key=lambda one: -sum(one.times.values()))
