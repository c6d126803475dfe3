"""What an agent reads: short Markdown in which every number comes with the query that returns it.

A brief is a list of parts. A part is a query over ``Answers`` and how its rows are written; what is
shown are the rows that the query returned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from opscope.errors import UsageError
from opscope.readers.answers import Answers
from opscope.readers.quoting import LEGEND, MOST_CHARACTERS, quoted

DEFAULT_TOKENS, LEAST_TOKENS, MOST_TOKENS = 2000, 300, 20_000
BYTES_PER_TOKEN = 3
"""Of digits, names and Markdown; of plain English a token has four or more."""

_OURS = frozenset(
    {"id", "severity", "status", "cause", "next", "level", "quantity", "by", "verdict", "finding"}
)
"""Columns whose texts are words of opscope's own, in the tables of ``Answers``."""

_PROSE, MOST_PROSE = frozenset({"explanation", "advice", "fix", "saved_by", "note", "needs"}), 500
"""Columns of sentences, of which more is shown."""


@dataclass(frozen=True)
class Question:
    """A query and how its rows are written.

    Attributes:
        title: above it.
        statement: the query.
        tables: that it reads.
        trusted: its columns are those of ``Answers``; texts of any other query are all quoted.
        is_record: one row, a line for each column that has a value.
        most: rows that are shown.
    """

    title: str
    statement: str
    tables: tuple[str, ...] = ()
    trusted: bool = True
    is_record: bool = False
    most: int = 50


def verdict_brief(answers: Answers, tokens: int = DEFAULT_TOKENS) -> str:
    """Is this program slow, why, at which line, what to change; and where the time goes."""
    return brief(answers, _VERDICT, tokens, _next_of(answers))


def findings_brief(answers: Answers, tokens: int = DEFAULT_TOKENS) -> str:
    """All findings, and the checks that could not run."""
    return brief(answers, (_FINDINGS, _UNCHECKED), tokens, "explain(trace, id) has the evidence.")


def comparison_brief(answers: Answers, tokens: int = DEFAULT_TOKENS) -> str:
    """Differences between two versions."""
    return brief(answers, _COMPARISON, tokens, "")


def explain_brief(answers: Answers, what: str, tokens: int = DEFAULT_TOKENS) -> str:
    """The evidence for one finding, line (``train.py:12``) or name.

    Raises:
        UsageError: there is none of that name.
    """
    parts = list(_explaining(answers, what))
    if not parts:
        raise UsageError(
            f"This trace has nothing named {what[:80]!r}. Give the id of a finding, a line "
            "as in train.py:12, or the name of an operator as the table operators has it."
        )
    return brief(answers, parts, tokens, "")


def query_brief(answers: Answers, statement: str, rows: int, tokens: int = DEFAULT_TOKENS) -> str:
    """The rows of the reader's own query."""
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


def _explaining(answers: Answers, what: str) -> Iterator[Question]:
    if "findings" not in answers.own_tables:
        return
    found = answers.query("select position, id from findings", ("findings",)).to_pylist()
    for one in found:
        if one["id"] == what:
            yield from _of_finding(one["position"], what)
            return
    file, _, line = what.rpartition(":")
    if file and line.isdecimal() and len(line) < 9:
        for table in ("lines", "places"):
            yield from _of_line(answers, table, file, int(line))
        return
    names = answers.query("select position, name from operators", ("operators",)).to_pylist()
    chosen = [one["position"] for one in names if one["name"] == what]
    chosen = chosen or [one["position"] for one in names if what and what in one["name"]]
    if chosen:
        listed = ", ".join(map(str, chosen[:20]))
        yield Question("Operators", f"from operators where position in ({listed})", ("operators",))


def _of_finding(position: int, finding: str) -> Iterator[Question]:
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


def _of_line(answers: Answers, table: str, file: str, line: int) -> Iterator[Question]:
    """Questions about one line, in files whose path ends with ``file``. Rows are named by number: a
    query shows no text of a trace."""
    statement = f"select position, file from {table} where line = {line}"
    rows = answers.query(statement, (table,)).to_pylist()
    chosen = [r["position"] for r in rows if r["file"] == file or r["file"].endswith(f"/{file}")]
    if chosen:
        listed = ", ".join(map(str, chosen[:20]))
        yield Question(f"In {table}", f"from {table} where position in ({listed})", (table,))


def brief(
    answers: Answers, parts: Sequence[Question], tokens: int, after: str, shows_query: bool = True
) -> str:
    """The parts in order, as far as they fit in so many tokens."""
    room = _Room(tokens)
    room.add(f"About {quoted(answers.about)}. {LEGEND}")
    left_out = []
    with answers.opened(dict.fromkeys(name for part in parts for name in part.tables)) as ask:
        for part in parts:
            if not _written(ask(part.statement), part, room, shows_query):
                left_out.append(part.title)
    if left_out:
        room.end(f"Not included (token limit): {', '.join(left_out)}. Raise the limit.")
    if after:
        room.end(after)
    return room.text()


def _written(found: Any, part: Question, room: _Room, shows_query: bool) -> bool:
    """Add a part with the rows found; False where it does not fit at all."""
    rows = found.slice(0, part.most).to_pylist()
    heading = [f"## {part.title}", f"`{part.statement}`"] if shows_query else []
    if not rows and shows_query:
        return True
    if part.is_record:
        known = ((key, value) for key, value in rows[0].items() if value not in (None, ""))
        return room.add(*heading, *(f"- {key}: {_cell(key, value, part)}" for key, value in known))
    names = [_heading(name, part) for name in found.column_names]
    if not room.add(*heading, f"| {' | '.join(names)} |", "|---" * len(names) + "|"):
        return False
    shown = 0
    for row in rows:
        cells = (_cell(key, value, part) for key, value in row.items())
        if not room.add(f"| {' | '.join(cells)} |", joins=True):
            break
        shown += 1
    if shown < found.num_rows:
        room.end(f"{shown:,} of {found.num_rows:,} rows are shown; ask for less, or aggregate.")
    return True


def _heading(name: str, part: Question) -> str:
    return name if part.trusted else quoted(name, 60).replace("|", "\\|")


def _cell(key: str, value: Any, part: Question) -> str:
    """A value: numbers as they are, words of ours as they are, any other text quoted."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if part.trusted and key in _OURS:
        return str(value)
    return quoted(value, MOST_PROSE if key in _PROSE else MOST_CHARACTERS).replace("|", "\\|")


class _Room:
    """Lines, up to a number of bytes; a few are kept for what is said at the end."""

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
        """Something about what was left out."""
        self._end.append(line)

    def text(self) -> str:
        """The whole text."""
        end = "\n".join(self._end)[: self._KEPT]
        return "\n".join([*self._lines[1:], *(["", end] if end else [])]) + "\n"


def _next_of(answers: Answers) -> str:
    if "findings" not in answers.own_tables:
        return "Of several processes: give rank or process for more."
    return (
        "explain(trace, id) has the evidence of a finding; sql reads these tables and all others."
    )
