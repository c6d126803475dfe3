"""Which lines a function of the program spends its own time at: between those that call something.

Of code that calls nothing no event has a line. What is known are the calls before and after it;
the source, where it can be read, shows which statements are between those lines.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.findings.subject import Flags, Subject

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (ast.If, ast.ExceptHandler, ast.match_case)
_LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_OPERATIONS = (
    ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.AugAssign, ast.Await,
    ast.JoinedStr, *_COMPREHENSIONS,
)  # fmt: skip
_MOST_FILES = 64
"""Whose functions are kept: each of a file's functions needs them."""


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
    widest = _native.widest_gaps(
        np.ascontiguousarray(subject.parent, dtype=np.int32),
        is_call,
        group,
        len(functions),
        subject.sites.caller_line,
        np.ascontiguousarray(subject.start_ns),
        np.ascontiguousarray(subject.duration_ns),
    )
    found: dict[int, int] = {}
    for number, before, after, _ in zip(*(column.tolist() for column in widest), strict=True):
        file, first = functions[number]
        found[number] = _line_between(file, first, before, after)
    return found


def _line_between(file: str, first: int, before: int, after: int) -> int:
    """The line of the code between two calls: a loop if there is one, else what calls something
    first, else the line of the next call, whose arguments may take long."""
    function = _function_at(file, first, max(before, after))
    if function is None:
        return before if before >= 0 else after if after >= 0 else first
    statements = [*_statements(function, before, after)]
    between = _between(statements, before, after)
    for lines in (
        [line for one in between if (line := _loop_line(one, before, after)) >= 0],
        [one.lineno for one in between if _calls(one, before)],
        # What a loop goes through was called, and all of its rounds came after that.
        [
            one.lineno
            for one in statements
            if isinstance(one, _LOOPS) and _is_at(one, before) and not _is_around(one, after)
        ],
        [
            after
            for one in statements
            if _is_at(one, after) and _calls(one, before) and _work(one) > 1
        ],
        [one.lineno for one in between if _work(one)],
    ):
        if lines:
            return lines[0]
    return max(before, first)


def _statements(node: ast.AST, before: int, after: int) -> Iterator[ast.stmt]:
    """Statements of a function by line, without blocks that leave it or a loop before ``after``."""
    for owner, block in _blocks(node):
        # A ``with`` that was left says the line that it was entered at.
        is_left = isinstance(owner, ast.With | ast.AsyncWith) and owner.lineno == before
        leaves = isinstance(owner, _BRANCHES) and isinstance(block[-1], _LEAVING)
        if (is_left or leaves) and not any(_is_around(one, after) for one in block):
            continue
        for one in block:
            yield one
            if not isinstance(one, (*_FUNCTIONS, ast.ClassDef)):
                yield from _statements(one, before, after)


def _blocks(node: ast.AST) -> Iterator[tuple[ast.AST, list[ast.stmt]]]:
    """The blocks of a compound statement, and whose each is; of a lambda or comprehension none."""
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        found = getattr(node, name, None)
        if isinstance(found, list) and found and isinstance(found[0], ast.stmt):
            yield node, found
        elif isinstance(found, list):
            for one in found:
                yield from _blocks(one)


def _between(statements: Sequence[ast.stmt], before: int, after: int) -> list[ast.stmt]:
    """What runs after a line and before another: the rest of a loop and its begin, if that is
    above; -1 for the begin of the function, and for its end."""
    others = [one for one in statements if not _is_at(one, before) and not _is_at(one, after)]
    around = [
        one
        for one in statements
        if isinstance(one, _LOOPS) and _is_around(one, before) and _is_around(one, after)
    ]
    if 0 <= after <= before and around:
        loop = around[-1]
        rest = [one for one in others if before < one.lineno and _is_around(loop, one.lineno)]
        return rest + [one for one in others if loop.lineno < one.lineno < after]
    return [one for one in others if before < one.lineno and (after < 0 or one.lineno < after)]


def _loop_line(statement: ast.stmt, before: int, after: int) -> int:
    """Where a loop begins that runs as a whole between two lines; -1 for none."""
    if isinstance(statement, _LOOPS):
        is_whole = not (_is_around(statement, before) or _is_around(statement, after))
        return statement.lineno if is_whole else -1
    lines = [node.lineno for node in _evaluated(statement) if isinstance(node, _COMPREHENSIONS)]
    return min(lines, default=-1)


def _is_around(statement: ast.stmt, line: int) -> bool:
    """Whether a line is of it or of a statement inside of it."""
    return statement.lineno <= line <= (statement.end_lineno or statement.lineno)


def _is_at(statement: ast.stmt, line: int) -> bool:
    """Whether it evaluates something at a line."""
    return line == statement.lineno or any(
        isinstance(node, ast.expr) and node.lineno <= line <= (node.end_lineno or node.lineno)
        for node in _evaluated(statement)
    )


def _calls(statement: ast.stmt, before: int) -> bool:
    """Whether it calls something, which may take long; a loop what it goes through, but for a
    range."""
    if isinstance(statement, ast.For | ast.AsyncFor):
        source = statement.iter
        of_range = isinstance(source, ast.Call) and ast.unparse(source.func) == "range"
        return not of_range and (_is_around(statement, before) or not isinstance(source, ast.Name))
    return any(isinstance(node, ast.Call) for node in _evaluated(statement))


def _work(statement: ast.stmt) -> int:
    """How many operations it evaluates."""
    return sum(isinstance(node, _OPERATIONS) for node in _evaluated(statement))


def _evaluated(statement: ast.stmt) -> Iterator[ast.expr | ast.stmt]:
    """What a statement evaluates itself: nothing of those in it or of functions it defines."""
    if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
        return
    yield statement
    waiting = [*ast.iter_child_nodes(statement)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case | ast.Lambda):
            continue
        if isinstance(node, ast.expr):
            yield node
        waiting += ast.iter_child_nodes(node)


def _function_at(file: str, line: int, inside: int) -> ast.AST | None:
    """The function that begins at a line of a file and has another; None if it cannot be read."""
    try:
        text = "".join(linecache.getlines(file))
    except ValueError:  # no file can be called so
        return None
    found = _functions(text).get(max(line, 1))
    if isinstance(found, ast.Module) and found.body and isinstance(found.body[0], _FUNCTIONS):
        one = found.body[0]  # may begin where the module does
        return one if one.lineno == 1 < inside <= (one.end_lineno or 1) else found
    return found


@lru_cache(maxsize=_MOST_FILES)
def _functions(text: str) -> Mapping[int, ast.AST]:
    """The functions of a source by the line that each begins at; all of it is at line 1."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[int, ast.AST] = {1: tree} if text else {}
    for node in ast.walk(tree):
        if isinstance(node, (*_FUNCTIONS, ast.Lambda, *_COMPREHENSIONS)):
            decorators = [one.lineno for one in getattr(node, "decorator_list", [])]
            found.setdefault(min([node.lineno, *decorators]), node)
    return found
