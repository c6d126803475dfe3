"""Which lines a function of the program spends its own time at: between those that call something.

Of code that calls nothing no event tells a line. What is known are the calls before and after it;
the source, where it can be read, tells what stands between them.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.analysis.findings.subject import Flags, Subject, Values

_MOST_FILES = 64
"""Whose functions are kept: one that has many is asked about once for each."""


@dataclass(frozen=True)
class Gap:
    """Where a function computes without calling anything.

    Attributes:
        line: that of the code; -1 if not even the function's is known.
        time_ns: in all its calls.
    """

    line: int
    time_ns: int


def widest_gaps(subject: Subject, frame: int, calls: Values) -> Gap:
    """Where most time passes in the calls (rows) of a function (row of frames)."""
    frames = subject.trace.table("frames")
    first, file = int(frames["line"][frame]), subject.trace.names[frames["file"][frame]]
    is_call = np.zeros(len(subject.parent), dtype=np.bool_)
    is_call[calls] = True
    for _, begin, end, time_ns in _widest(subject, is_call, np.zeros(len(is_call), np.int32), 1):
        return Gap(_line_between(file, first, begin, end), time_ns)
    return Gap(first, 0)


def gap_lines(
    subject: Subject,
    is_call: Flags,
    group: npt.NDArray[np.int32],
    functions: Sequence[tuple[str, int]],
) -> dict[int, int]:
    """The line that most time passes at in the calls of each of some functions; of those alone that
    have calls.

    Args:
        subject: of a trace.
        is_call: which events are calls of one of them.
        group: of these the number of the function; of others any. Shape (events,), as ``is_call``.
        functions: by that, the file of each and the line that it begins at.
    """
    return {
        number: _line_between(*functions[number], begin, end)
        for number, begin, end, _ in _widest(subject, is_call, group, len(functions))
    }


def _widest(
    subject: Subject, is_call: Flags, group: npt.NDArray[np.int32], groups: int
) -> list[tuple[int, int, int, int]]:
    """Of every group of calls the stretch of code that takes longest: the group, the lines of the
    call before and of the one after (-1: none), and the time."""
    found = _native.widest_gaps(
        np.ascontiguousarray(subject.parent, dtype=np.int32),
        is_call,
        group,
        groups,
        subject.sites.caller_line,
        np.ascontiguousarray(subject.start_ns),
        np.ascontiguousarray(subject.duration_ns),
    )
    return list(zip(*(column.tolist() for column in found), strict=True))


def _line_between(file: str, first: int, before: int, after: int) -> int:
    """The line of the code between two calls: a loop if there is one, else what comes first."""
    function = _function_at(file, first)
    if function is None:
        return before if before >= 0 else after if after >= 0 else first
    begin = before if before >= 0 else first
    end = after if after > begin else _end_of_round(function, begin, after)
    loops = [
        node.lineno
        for node in ast.walk(function)
        if isinstance(node, ast.For | ast.While | ast.ListComp | ast.GeneratorExp | ast.DictComp)
    ]
    inside = [line for line in sorted(loops) if begin < line <= end or line == begin == first]
    if inside:
        return inside[0]
    around = [line for line in sorted(loops) if line <= begin]
    statements = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.stmt) and begin < node.lineno < end
    ]
    if statements:
        return min(node.lineno for node in [*filter(_calls, statements)] or statements)
    return around[-1] if around and after <= begin else max(begin, first)


def _calls(statement: ast.stmt) -> bool:
    """Whether a statement calls something, which may take long; what is inside of it aside."""
    parts: list[ast.AST] = [statement]
    if isinstance(statement, ast.If):
        parts = [statement.test]
    elif isinstance(statement, ast.With | ast.AsyncWith):
        parts = [item.context_expr for item in statement.items]
    elif isinstance(statement, ast.Try | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        parts = []
    return any(isinstance(node, ast.Call) for part in parts for node in ast.walk(part))


def _end_of_round(function: ast.AST, begin: int, after: int) -> int:
    """The last line of the loop that leads from ``begin`` back to ``after``, or of the function."""
    ends = [
        node.end_lineno or node.lineno
        for node in ast.walk(function)
        if isinstance(node, ast.For | ast.While)
        and node.lineno <= max(after, 0)
        and begin <= (node.end_lineno or 0)
    ]
    whole = getattr(function, "end_lineno", None) or begin
    return min(ends) if ends and after >= 0 else int(whole)


def _function_at(file: str, line: int) -> ast.AST | None:
    """The function that begins at a line of a file; None if it cannot be read, or is another."""
    try:
        text = "".join(linecache.getlines(file))
    except ValueError:  # no file can be called so
        return None
    return _functions(text).get(max(line, 1))


@lru_cache(maxsize=_MOST_FILES)
def _functions(text: str) -> Mapping[int, ast.AST]:
    """The functions of a source by the line that each begins at; all of it is at line 1."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    if not text:
        return {}
    found: dict[int, ast.AST] = {1: tree}
    for node in ast.walk(tree):
        if isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ListComp
            | ast.GeneratorExp | ast.DictComp | ast.SetComp
        ):  # fmt: skip
            decorators = [one.lineno for one in getattr(node, "decorator_list", [])]
            found.setdefault(min([node.lineno, *decorators]), node)
    return found
