"""Which lines a function of the program spends its own time at: between those that call something.

Of code that calls nothing no event tells a line. What is known are the calls before and after it;
the source, where it can be read, tells what stands between them.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.analysis.findings.flow import Flow, Step
from opscope.analysis.findings.subject import Flags, Subject, Values

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
_OPERATIONS = (
    ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.AugAssign, ast.Await,
    ast.JoinedStr, *_COMPREHENSIONS,
)  # fmt: skip

_WAITING = frozenset((
    "accept", "acquire", "check_call", "check_output", "communicate", "compress", "connect",
    "decompress", "dump", "dumps", "fsync", "join", "load", "loads", "poll", "read", "readinto",
    "readline", "readlines", "recv", "recv_into", "recvfrom", "result", "select", "sleep", "system",
    "urlopen", "wait", "wait4", "waitpid", "write",
))  # fmt: skip
"""Of several calls that nothing is known of, one of these took the time, most likely."""

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
    """The line of the code between two calls: a loop if there is one, else what calls something
    first, else the line of the next call, whose arguments may take long."""
    function = _function_at(file, first, max(before, after))
    if function is None:
        return before if before >= 0 else after if after >= 0 else first
    begin = max(before if before >= 0 else first, first)
    flow = _flow(function)
    between = flow.between(before, after)
    loops = [loop for step in between if (loop := _loop_line(step, before, after)) >= 0]
    if loops:
        return loops[0]
    calling = [step for step in between if _calls(step, before)]
    if calling:
        return next(filter(_may_wait, calling), calling[0]).line
    begun = [flow.steps[number] for number in flow.at(before)] if before >= 0 else []
    over = [one.line for one in begun if _is_loop(one) and not one.is_around(after)]
    if over:  # what it goes through was called, and all of its rounds came after that
        return over[0]
    there = [flow.steps[number] for number in flow.at(after)] if after >= 0 else []
    if any(_calls(step, before) for step in there) and sum(map(_work, there)) > 1:
        return after
    computing = [step.line for step in between if _work(step)]
    return computing[0] if computing else begin


def _flow(function: ast.AST) -> Flow:
    """Of a function its flow; of a lambda or a comprehension, which has no statements, none."""
    body = getattr(function, "body", ())
    try:
        return Flow(body if isinstance(body, list) else ())
    except RecursionError:
        return Flow(())


def _loop_line(step: Step, before: int, after: int) -> int:
    """Where a loop of a step begins that runs as a whole between two lines; -1 for none."""
    if _is_loop(step):
        return -1 if step.is_around(before) or step.is_around(after) else step.line
    lines = [node.lineno for node in _evaluated(step) if isinstance(node, _COMPREHENSIONS)]
    return min(lines, default=-1)


def _is_loop(step: Step) -> bool:
    return isinstance(step.statement, _LOOPS)


def _calls(step: Step, before: int) -> bool:
    """Whether a step calls something, which may take long; a loop what it goes through, but for a
    range."""
    if isinstance(step.statement, ast.For | ast.AsyncFor):
        source = step.statement.iter
        of_range = isinstance(source, ast.Call) and ast.unparse(source.func) == "range"
        return not of_range and (step.is_around(before) or not isinstance(source, ast.Name))
    return any(isinstance(node, ast.Call) for node in _evaluated(step))


def _may_wait(step: Step) -> bool:
    """Whether a step calls what is there to wait for something, or goes over much, by its name."""
    called = (node.func for node in _evaluated(step) if isinstance(node, ast.Call))
    names = (
        one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in called
    )
    return any(name in _WAITING for name in names)


def _work(step: Step) -> int:
    """How many operations a step evaluates."""
    return sum(isinstance(node, _OPERATIONS) for node in _evaluated(step))


def _evaluated(step: Step) -> Iterator[ast.expr | ast.stmt]:
    """What a step evaluates itself: nothing of functions that it defines, nor the end of a
    ``with``."""
    if step.is_exit or isinstance(step.statement, _DEFINITIONS):
        return
    waiting: list[ast.AST] = [*step.parts]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.expr | ast.stmt):
            yield node
        waiting += ast.iter_child_nodes(node)


def _function_at(file: str, line: int, inside: int) -> ast.AST | None:
    """The function that begins at a line of a file and has another; None if it cannot be read, or
    is another."""
    try:
        text = "".join(linecache.getlines(file))
    except ValueError:  # no file can be called so
        return None
    found = _functions(text).get(max(line, 1))
    if isinstance(found, ast.Module) and found.body and found.body[0].lineno == 1:
        one = found.body[0]  # begins where the module does
        if isinstance(one, _FUNCTIONS) and 1 < inside <= (one.end_lineno or 1):
            return one
    return found


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
