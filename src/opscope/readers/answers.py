"""Results about a trace or a comparison, as tables for SQL beside those of the trace.

Every number in a brief comes from a query over these tables, so an agent can check and refine it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, astuple
from typing import Any

import numpy as np

from opscope.analysis.diff.result import Diff
from opscope.analysis.memory.counters import memory_was_recorded
from opscope.analysis.source_lines import program_lines
from opscope.analysis.top_operators import DEFAULT_SORT, find_top_operators, has_work
from opscope.api.job import Job
from opscope.api.trace import Trace
from opscope.base.arrow import pa
from opscope.columns.location import line_texts
from opscope.columns.schema import TABLES
from opscope.errors import OpscopeError
from opscope.findings.verdict import Verdict
from opscope.storage.interop import to_arrow
from opscope.storage.sql import connection_over, rows_by
from opscope.timeline.period import detailed_period_of, period_of

Rows = Iterable[Mapping[str, Any]]

_SCHEMAS: dict[str, dict[str, str]] = {
    "verdict": {
        **dict.fromkeys(("status", "title", "fix", "about", "next"), "string"),
        **dict.fromkeys(("step_ns", "wall_ns", "gain_ns", "line", "others"), "int64"),
        **dict.fromkeys(("share", "gain_share"), "double"),
        **dict.fromkeys(("file", "function", "module", "code", "doubts"), "string"),
    },
    "most_time": {"name": "string", "share": "double"},
    "causes": {"cause": "string", "share": "double"},
    "findings": {
        "position": "int64",
        **dict.fromkeys(("id", "severity", "title", "explanation", "advice"), "string"),
        **dict.fromkeys(("occurrences", "time_ns", "saved_ns", "saved_bytes", "line"), "int64"),
        **dict.fromkeys(("time_share", "saved_share"), "double"),
        **dict.fromkeys(("saved_by", "place_note", "file", "function"), "string"),
    },
    "unchecked": {"id": "string", "needs": "string"},
    "places": {
        "position": "int64",
        **dict.fromkeys(("finding", "file", "function", "module", "code"), "string"),
        **dict.fromkeys(("line", "occurrences", "time_ns"), "int64"),
    },
    "operators": {
        "position": "int64",
        "name": "string",
        **dict.fromkeys(("calls", "cpu_self_ns", "cpu_total_ns", "device_self_ns"), "int64"),
    },
    "lines": {
        "position": "int64",
        **dict.fromkeys(("file", "function", "code"), "string"),
        **dict.fromkeys(("line", "calls", "time_ns", "waiting_ns"), "int64"),
    },
    "peak": {"by": "string", "name": "string", "size_bytes": "int64", "blocks": "int64"},
    "step": {
        "verdict": "string",
        **dict.fromkeys(("old_ns", "new_ns", "change_ns", "margin_ns", "change_share"), "double"),
    },
    "changes": {
        **dict.fromkeys(("level", "name", "verdict"), "string"),
        **dict.fromkeys(("old_ns", "new_ns", "change_ns", "margin_ns", "p_value"), "double"),
    },
    "counts": {"quantity": "string", "name": "string", "old": "double", "new": "double"},
    "notes": {"note": "string"},
}
"""Columns of the tables of results, with Arrow types. Times are nanoseconds, shares are of the
period: 0.25 is a quarter."""

OCCURRENCES = "occurrences"
"""Table with one row for each event of a finding: the finding's id and the row in ``events``."""


_VIEW = ("events", "names", "threads")
"""Tables that the view named_events reads."""


class Answers:
    """Tables for queries, each made at its first use."""

    def __init__(self, makers: Mapping[str, Callable[[], Any]], about: str) -> None:
        """``makers``: functions that return a table or rows; ``about``: name of the subject."""
        self._makers, self.about = dict(makers), about
        self._made: dict[str, Any] = {}

    @property
    def own_tables(self) -> list[str]:
        """Names of the tables with results."""
        return [name for name in self._makers if name in (*_SCHEMAS, OCCURRENCES)]

    def has(self, tables: Iterable[str]) -> bool:
        """Whether there are all of these tables."""
        return all(name in self._makers for name in tables)

    def columns(self, name: str) -> list[str]:
        """Column names of a table."""
        return list(self._table(name).column_names)

    def query(self, statement: str, tables: Iterable[str] = ()) -> Any:
        """The rows of one SELECT, as an Arrow table.

        Args:
            statement: may read only the tables, see ``storage.sql``.
            tables: the tables that it reads; default: those whose names are in it.

        Raises:
            UsageError: it fails, or is not permitted.
        """
        with self.opened(tuple(tables) or self.named_in(statement)) as run_query:
            return run_query(statement)

    @contextmanager
    def opened(self, tables: Iterable[str]) -> Iterator[Callable[[str], Any]]:
        """:meth:`query` for several statements: opening takes longer than most statements."""
        connection = connection_over({name: self._table(name) for name in tables}, read_only=True)
        try:
            yield lambda statement: rows_by(connection, statement, read_only=True)
        finally:
            connection.close()

    def named_in(self, statement: str) -> tuple[str, ...]:
        """Superset of the tables that a statement reads; only these have to be computed."""
        text = statement.lower()
        view_tables = _VIEW if "events" in text else ()
        named = [name for name in self._makers if name in view_tables or name in text]
        return tuple(named or self._makers)

    def _table(self, name: str) -> Any:
        if name not in self._made:
            result = self._makers[name]()
            self._made[name] = result if isinstance(result, pa.Table) else _arrow(name, result)
        return self._made[name]


def _arrow(name: str, rows: Rows) -> Any:
    schema, listed = _SCHEMAS[name], list(rows)
    return pa.table(
        {key: pa.array([_text(r.get(key)) for r in listed], kind) for key, kind in schema.items()}
    )


def _text(value: Any) -> Any:
    """Escape lone surrogates, which Arrow refuses."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def answers_of(trace: Trace, about: str) -> Answers:
    """Results about one process, and the tables of its trace."""
    has_results = trace.has_times and has_work(trace)
    makers: dict[str, Callable[[], Any]] = {
        "verdict": lambda: _verdict(trace.verdict()),
        "most_time": lambda: [
            {"name": name, "share": share} for name, share in trace.verdict().most
        ],
        "causes": lambda: [
            {"cause": cause, "share": share}
            for cause, share in (trace.verdict().causes or {}).items()
        ],
        "findings": lambda: _findings(trace) if has_results else (),
        "unchecked": lambda: (
            [asdict(one) for one in trace.findings().unchecked] if has_results else ()
        ),
        "places": lambda: _places(trace) if has_results else (),
        OCCURRENCES: lambda: _occurrences(trace if has_results else None),
        "operators": lambda: _operators(trace) if has_work(trace) else (),
        "lines": lambda: _lines(trace) if has_results else (),
        "peak": lambda: _peak(trace),
    }

    def table(name: str) -> Callable[[], Any]:
        return lambda: to_arrow(trace, name, text=False)

    return Answers(makers | {name: table(name) for name in (*TABLES, "names")}, about)


def answers_of_job(job: Job, about: str) -> Answers:
    """The verdict on several processes together."""
    verdict = job.verdict
    makers: dict[str, Callable[[], Any]] = {
        "verdict": lambda: _verdict(verdict()),
        "most_time": lambda: [{"name": name, "share": share} for name, share in verdict().most],
    }
    return Answers(makers, about)


def answers_of_diff(diff: Diff, about: str) -> Answers:
    """Tables of a comparison: the step, changed times, changed counts, notes."""
    step = diff.step
    rows: dict[str, list[dict[str, Any]]] = {
        "step": []
        if step is None
        else [
            {
                "verdict": step.verdict.value,
                **_change(step),
                "change_share": step.relative if step.a_ns else None,
            }
        ],
        "changes": [
            {
                "level": one.level.value,
                "name": one.name,
                "verdict": one.verdict.value,
                **_change(one),
                "p_value": one.p_value,
            }
            for one in diff.times
        ],
        "counts": [
            {
                "quantity": one.quantity.value,
                "name": one.name,
                "old": one.a.mean if one.a else 0.0,
                "new": one.b.mean if one.b else 0.0,
            }
            for one in diff.counts
        ],
        "notes": [{"note": note} for note in (*diff.not_judged, *diff.notes)],
    }
    return Answers({name: (lambda found=found: found) for name, found in rows.items()}, about)  # type: ignore[misc]


def _change(change: Any) -> dict[str, float | None]:
    margin = change.margin_ns if np.isfinite(change.margin_ns) else None
    return {
        "old_ns": change.a_ns,
        "new_ns": change.b_ns,
        "change_ns": change.change_ns,
        "margin_ns": margin,
    }


def _verdict(verdict: Verdict) -> Rows:
    place = verdict.place
    return [
        {
            "status": verdict.status.value,
            **{key: getattr(verdict, key) for key in ("title", "fix", "about", "next", "others")},
            **{key: getattr(verdict, key) for key in ("step_ns", "wall_ns", "gain_ns")},
            "share": verdict.share or None,  # 0 is unknown
            "gain_share": verdict.gain_share,
            **({} if place is None else {key: getattr(place, key) for key in _PLACE}),
            "code": verdict.line,
            "doubts": "; ".join(verdict.unsure),
        }
    ]


_PLACE = ("file", "line", "function", "module")


def _findings(trace: Trace) -> Rows:
    for position, finding in enumerate(trace.findings()):
        place = finding.places[0] if finding.places else None
        location = {} if place is None else {key: getattr(place, key) for key in _PLACE[:3]}
        values = {key: getattr(finding, key, None) for key in _SCHEMAS["findings"]}
        yield {**values, "position": position, **location}


def _places(trace: Trace) -> Rows:
    texts = line_texts(trace)
    pairs = [(one.id, place) for one in trace.findings() for place in one.places]
    for position, (finding, place) in enumerate(pairs):
        extra = {"position": position, "finding": finding, "code": place.source_text(texts)}
        yield {**vars(place), **extra}


def _occurrences(trace: Trace | None) -> Any:
    findings = [] if trace is None else list(trace.findings())
    positions = [np.repeat(np.int32(i), len(one.events)) for i, one in enumerate(findings)]
    indices = pa.array(np.concatenate([np.zeros(0, np.int32), *positions]))
    events = np.concatenate([np.zeros(0, np.int64), *(one.events for one in findings)])
    ids = pa.array([one.id for one in findings], "string")
    return pa.table(
        {"finding": pa.DictionaryArray.from_arrays(indices, ids), "event": events.astype(np.int64)}
    )


def _operators(trace: Trace) -> Rows:
    top = find_top_operators(period_of(trace), sort_by=DEFAULT_SORT, row_limit=-1)
    return ({**row, "position": place} for place, row in enumerate(top.rows))


def _lines(trace: Trace) -> Rows:
    for position, line in enumerate(program_lines(detailed_period_of(trace).trace)):
        yield {**asdict(line), "position": position, "code": line.text}


def _peak(trace: Trace) -> Rows:
    if not memory_was_recorded(trace):
        return
    try:
        peak = trace.peak_memory()
    except OpscopeError:  # nothing was allocated
        return
    for by in ("category", "module", "operator", "line"):
        for group in getattr(peak, f"by_{by}"):
            name, size_bytes, blocks, *_ = astuple(group)
            yield {"by": by, "name": name, "size_bytes": size_bytes, "blocks": blocks}
