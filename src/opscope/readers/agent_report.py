"""Briefs for agents: short Markdown tables, each with the SQL query that returns its rows.

A brief is a list of :class:`Question`: a query over the tables of ``Answers``, and the layout of
its rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from opscope.errors import UsageError
from opscope.readers.answers import Answers
from opscope.readers.quoting import LEGEND, MOST_CHARACTERS, quoted
from opscope.storage.sql import rows_of

DEFAULT_TOKENS, LEAST_TOKENS, MOST_TOKENS = 2000, 300, 20_000
BYTES_PER_TOKEN = 3
"""For digits, names and Markdown; plain English has four or more."""

_OWN_WORDS = frozenset(
    {"id", "severity", "status", "cause", "next", "level", "quantity", "by", "verdict", "finding"}
)
"""Columns of ``Answers`` with opscope's own words, which need no quotes."""

_PROSE, MOST_PROSE = frozenset({"explanation", "advice", "fix", "saved_by", "note", "needs"}), 500
"""Columns of sentences, and how many characters of these are shown."""


@dataclass(frozen=True)
class Question:
    """A query and the layout of its rows."""

    title: str
    statement: str
    tables: tuple[str, ...] = ()  # read by the statement
    trusted: bool = True  # the columns are those of ``Answers``; else all texts are quoted
    is_record: bool = False  # one row, shown as a line for each column with a value
    most: int = 50  # maximum number of shown rows


def verdict_brief(answers: Answers, tokens: int = DEFAULT_TOKENS) -> str:
    """Verdict, findings, and where the time goes."""
    return brief(answers, _VERDICT, tokens, _next_step(answers))


def findings_brief(answers: Answers, tokens: int = DEFAULT_TOKENS) -> str:
    """All findings, and the checks that could not run."""
    return brief(answers, (_FINDINGS, _UNCHECKED), tokens, "explain(trace, id) has the evidence.")


def comparison_brief(answers: Answers, tokens: int = DEFAULT_TOKENS) -> str:
    """Differences between two versions."""
    return brief(answers, _COMPARISON, tokens, "")


def explain_brief(answers: Answers, what: str, tokens: int = DEFAULT_TOKENS) -> str:
    """The evidence for one finding, line (``train.py:12``) or name.

    Raises:
        UsageError: the trace has no such finding, line or name.
    """
    parts = list(_evidence(answers, what))
    if not parts:
        raise UsageError(
            f"This trace has nothing named {what[:80]!r}. Give the id of a finding, a line such as "
            "train.py:12, or the name of an operator from the table operators."
        )
    return brief(answers, parts, tokens, "")


def query_brief(answers: Answers, statement: str, rows: int, tokens: int = DEFAULT_TOKENS) -> str:
    """The rows of an agent's own query."""
    tables = answers.named_in(statement)
    part = Question("", statement, tables, trusted=False, most=rows)
    return brief(answers, (part,), tokens, "", shows_query=False)


_VERDICT = (
    Question(
        "Verdict",
        "select status, share, step_ns, wall_ns, gain_ns, gain_share, title, file, line, function, "
        "code, fix, about, doubts, others, next from verdict",
        ("verdict",),
        is_record=True,
    ),
    Question("Most time", "select name, share from most_time", ("most_time",)),
    Question(
        "Main thread by cause",
        "select cause, share from causes where share >= 0.01 order by share desc",
        ("causes",),
    ),
    Question(
        "What to change",
        "select id, severity, saved_ns, saved_share, occurrences, file, line from findings "
        "order by position limit 6",
        ("findings",),
    ),
    Question(
        "Names with most self time",
        "select name, calls, cpu_self_ns, device_self_ns from operators order by position limit 8",
        ("operators",),
    ),
    Question(
        "Lines with most time",
        "select file, line, function, calls, time_ns, code from lines order by position limit 5",
        ("lines",),
    ),
    Question(
        "Memory at its peak",
        'select "by", name, size_bytes, blocks from peak where "by" = \'category\' '
        "order by size_bytes desc limit 5",
        ("peak",),
    ),
)
_FINDINGS = Question(
    "Findings",
    "select id, severity, saved_ns, saved_share, saved_bytes, occurrences, file, line, title "
    "from findings order by position",
    ("findings",),
)
_UNCHECKED = Question("Checks without recorded data", "from unchecked", ("unchecked",))
_COMPARISON = (
    Question("A step", "from step", ("step",), is_record=True),
    Question(
        "Slower or faster",
        "select level, name, old_ns, new_ns, change_ns, margin_ns, verdict from changes "
        "where verdict in ('slower', 'faster') order by abs(change_ns) desc limit 12",
        ("changes",),
    ),
    Question(
        "Calls and bytes a step that differ",
        "select quantity, name, old, new from counts order by abs(new - old) desc limit 12",
        ("counts",),
    ),
    Question("Notes", "from notes", ("notes",)),
)


def _evidence(answers: Answers, what: str) -> Iterator[Question]:
    if "findings" not in answers.own_tables:
        return
    findings = answers.query("select position, id from findings", ("findings",)).to_pylist()
    for row in findings:
        if row["id"] == what:
            yield from _finding_evidence(row["position"], what)
            return
    file, _, line = what.rpartition(":")
    if file and line.isdecimal() and len(line) < 9:
        for table in ("lines", "places"):
            yield from _line_evidence(answers, table, file, int(line))
        return
    names = answers.query("select position, name from operators", ("operators",)).to_pylist()
    chosen = [row["position"] for row in names if row["name"] == what]
    chosen = chosen or [row["position"] for row in names if what and what in row["name"]]
    if chosen:
        listed = ", ".join(map(str, chosen[:20]))
        yield Question("Operators", f"from operators where position in ({listed})", ("operators",))


def _finding_evidence(position: int, finding: str) -> Iterator[Question]:
    yield Question(
        "Finding", f"from findings where position = {position}", ("findings",), is_record=True
    )
    yield Question(
        "Places",
        f"select file, line, function, module, occurrences, time_ns, code from places "
        f"where finding = '{finding}' order by time_ns desc",
        ("places",),
    )
    yield Question(
        "Its events",
        "select name, count(*) as events, sum(duration_us) * 1000 as time_ns, min(id) as first_id "
        f"from occurrences join named_events on id = event where finding = '{finding}' "
        "group by name order by time_ns desc limit 8",
        ("occurrences", "events", "names", "threads"),
    )


def _line_evidence(answers: Answers, table: str, file: str, line: int) -> Iterator[Question]:
    """Questions about one line of files whose path ends with ``file``. They select rows by number,
    because the shown query must not contain text of a trace."""
    statement = f"select position, file from {table} where line = {line}"
    rows = answers.query(statement, (table,)).to_pylist()
    chosen = [r["position"] for r in rows if r["file"] == file or r["file"].endswith(f"/{file}")]
    if chosen:
        listed = ", ".join(map(str, chosen[:20]))
        yield Question(f"In {table}", f"from {table} where position in ({listed})", (table,))


def brief(
    answers: Answers, parts: Sequence[Question], tokens: int, after: str, shows_query: bool = True
) -> str:
    """The parts in order; parts that exceed the limit of tokens are left out."""
    room = _Room(tokens)
    room.add(f"About {quoted(answers.about)}. {LEGEND}")
    left_out = []
    parts = [part for part in parts if answers.has(part.tables)]  # a job has few
    with answers.opened(dict.fromkeys(name for part in parts for name in part.tables)) as run_query:
        for part in parts:
            if not _add_part(run_query(part.statement), part, room, shows_query):
                left_out.append(part.title)
    if left_out:
        room.end(f"Not included (token limit): {', '.join(left_out)}. Raise the limit.")
    if after:
        room.end(after)
    return room.text()


def _add_part(table: Any, part: Question, room: _Room, shows_query: bool) -> bool:
    """Add a part with its rows; False if not even the heading fits."""
    rows = [
        dict(zip(table.column_names, row, strict=True))
        for row in rows_of(table.slice(0, part.most))
    ]
    heading = [f"## {part.title}", f"`{part.statement}`"] if shows_query else []
    if not rows and shows_query:
        return True
    if part.is_record:
        values = ((key, value) for key, value in rows[0].items() if value not in (None, ""))
        lines = [f"- {key}: {_cell(key, value, part)}" for key, value in values]
        while lines and not room.add(*heading, *lines):
            lines.pop()
        return bool(lines)
    names = [_heading(name, part) for name in table.column_names]
    if not room.add(*heading, f"| {' | '.join(names)} |", "|---" * len(names) + "|"):
        return False
    shown = 0
    for row in rows:
        cells = (_cell(key, value, part) for key, value in row.items())
        if not room.add(f"| {' | '.join(cells)} |", joins=True):
            break
        shown += 1
    if shown < table.num_rows:
        room.end(f"{shown:,} of {table.num_rows:,} rows are shown; filter or aggregate.")
    return True


def _heading(name: str, part: Question) -> str:
    return name if part.trusted else quoted(name, 60).replace("|", "\\|")


def _cell(key: str, value: Any, part: Question) -> str:
    """Text of a value; texts that are not opscope's own are quoted."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if part.trusted and key in _OWN_WORDS:
        return str(value)
    return quoted(value, MOST_PROSE if key in _PROSE else MOST_CHARACTERS).replace("|", "\\|")


class _Room:
    """Lines up to a number of bytes; ``_KEPT`` bytes are reserved for the last lines."""

    _KEPT = 240

    def __init__(self, tokens: int) -> None:
        if not LEAST_TOKENS <= tokens <= MOST_TOKENS:
            raise UsageError(
                f"tokens is {tokens}. Give a number between {LEAST_TOKENS} and {MOST_TOKENS}."
            )
        self._left = tokens * BYTES_PER_TOKEN - self._KEPT
        self._lines: list[str] = []
        self._end: list[str] = []

    def add(self, *lines: str, joins: bool = False) -> bool:
        """Add all lines, or none if they do not fit."""
        size = sum(len(line.encode("utf-8", "replace")) + 1 for line in lines) + (not joins)
        if size > self._left:
            return False
        self._left -= size
        self._lines += lines if joins else ["", *lines]
        return True

    def end(self, line: str) -> None:
        self._end.append(line)

    def text(self) -> str:
        end = "\n".join(self._end)[: self._KEPT]
        return "\n".join([*self._lines[1:], *(["", end] if end else [])]) + "\n"


def _next_step(answers: Answers) -> str:
    if "findings" not in answers.own_tables:
        return "This job has several processes: give rank or process for more."
    return "explain(trace, id) has the evidence of a finding; sql reads these and other tables."
