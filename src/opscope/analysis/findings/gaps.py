"""Which lines a function of the program spends its own time at: between those that call something.

Of code that calls nothing no event tells a line. What is known are the calls before and after it;
the source, where it can be read, tells what stands between them.
"""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass

import numpy as np

from opscope.analysis.findings.subject import Subject, Values


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
    before, after, took = _between(subject, calls)
    first = int(subject.trace.table("frames")["line"][frame])
    if not len(took):
        return Gap(first, 0)
    keys, group = np.unique(np.stack([before, after], axis=1), axis=0, return_inverse=True)
    total = np.bincount(group.reshape(-1), weights=took)
    widest = int(np.argmax(total))
    file = subject.trace.names[subject.trace.table("frames")["file"][frame]]
    begin, end = keys[widest].tolist()
    return Gap(_line_between(file, first, begin, end), int(total[widest]))


def _between(subject: Subject, calls: Values) -> tuple[Values, Values, Values]:
    """Line of the call before, of the one after (-1: none), and time, of every stretch of code."""
    wanted = np.zeros(len(subject.parent) + 1, dtype=np.bool_)
    wanted[calls] = True
    children = np.flatnonzero(wanted[subject.parent])
    order = children[np.lexsort((children, subject.parent[children]))]
    line = subject.sites.caller_line
    parent = subject.parent[order]
    new = np.append(True, parent[1:] != parent[:-1])
    new = new[: len(order)]
    before = np.where(new, -1, np.append(-1, line[order])[: len(order)])
    ended = np.append(0, subject.end_ns[order])[: len(order)]
    begin = np.where(new, subject.start_ns[parent], ended)
    last = np.flatnonzero(np.append(new, True)[1:])
    empty = np.setdiff1d(calls, parent)
    took = [
        subject.start_ns[order] - begin,
        subject.end_ns[parent[last]] - subject.end_ns[order[last]],
        subject.duration_ns[empty],
    ]
    none = np.full(len(empty), -1, dtype=np.int64)
    return (
        np.concatenate([before, line[order[last]], none]),
        np.concatenate([line[order], np.full(len(last), -1), none]),
        np.maximum(np.concatenate(took), 0),
    )


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
    text = "".join(linecache.getlines(file))
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    if not text:
        return None
    if line <= 1:
        return tree
    for node in ast.walk(tree):
        first = min(
            [getattr(node, "lineno", -1), *(d.lineno for d in getattr(node, "decorator_list", []))]
        )
        if first == line and isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ListComp
            | ast.GeneratorExp | ast.DictComp | ast.SetComp
        ):  # fmt: skip
            return node
    return None
