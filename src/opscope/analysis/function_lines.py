"""Self time of functions by line, between the lines of their calls.

No event has a line of code that calls nothing. The calls before and after it are known; the source,
if readable, has the statements between their lines.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.analysis.sites import Sites
from opscope.base.program_files import lines_of_source
from opscope.columns.location import line_texts
from opscope.columns.row_groups import group_rows, order_rows
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.signatures import group_sums

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_OTHERS = (*_FUNCTIONS, ast.ClassDef, ast.Lambda)  # code inside these does not run where they are
_BRANCHES = (ast.If, ast.ExceptHandler, ast.match_case)
_LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_OPERATIONS = (
    ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.AugAssign, ast.Await,
    ast.JoinedStr, *_COMPREHENSIONS,
)  # fmt: skip
_KEEPING = ("append", "appendleft", "add", "extend", "insert", "put", "setdefault")
"""Methods that store their argument."""

_SHARING = ("contiguous", "detach", "flatten", "permute", "reshape", "squeeze", "t", "transpose",
            "unsqueeze", "view")  # fmt: skip
"""Methods whose result may share the tensor's memory."""

_MOST_FILES = 64  # number of files whose parsed functions are cached


def gap_lines(
    sites: Sites,
    times_ns: tuple[Values, Values],
    is_call: Flags,
    group: npt.NDArray[np.int32],
    functions: Sequence[tuple[str, int]],
) -> dict[int, int]:
    """Line with most self time in the calls of each function, by the function's number.

    Args:
        sites: locations of a trace's events.
        times_ns: start and duration of each event. Shape (events,) each.
        is_call: whether an event is a call of one of the functions. Shape (events,).
        group: number of the function that an event calls; any for others. Shape (events,).
        functions: file and first line of each function, by number.
    """
    lines: dict[int, int] = {}
    parent = sites.listing.tree.parent
    for number, before, after in widest_gaps(parent, is_call, group, sites.caller_line, *times_ns):
        file, first = functions[number]
        lines[number] = _line_between(_source(sites.listing.trace, file), first, before, after)
    return lines


def widest_gaps(
    parent: npt.NDArray[np.signedinteger[Any]],
    is_call: Flags,
    group: npt.NDArray[np.int32],
    line: npt.NDArray[np.int32],
    start_ns: Values,
    took_ns: Values,
) -> list[tuple[int, int, int]]:
    """Gap between two calls with most self time in each group: group, line before, line after.

    -1 stands for the beginning and the end of a call. Arguments have shape (events,); ``line`` is
    the line that an event is called from.
    """
    calls = np.flatnonzero(is_call)
    inner = np.flatnonzero((parent >= 0) & is_call[parent])
    inner = inner[order_rows(parent[inner])]
    call, end_ns = parent[inner], start_ns[inner] + took_ns[inner]
    is_first = np.append(True, call[1:] != call[:-1])[: len(inner)]
    began_ns = np.where(is_first, start_ns[call], np.roll(end_ns, 1))
    before = np.where(is_first, -1, np.roll(line[inner], 1))
    # The gap after the last inner call.
    is_last = np.append(call[1:] != call[:-1], True)[: len(inner)]
    at = np.searchsorted(calls, call[is_last])
    last_end_ns, last_line = start_ns[calls], np.full(len(calls), -1, dtype=np.int64)
    last_end_ns[at], last_line[at] = end_ns[is_last], line[inner][is_last]
    gap_ns = np.append(start_ns[inner] - began_ns, start_ns[calls] + took_ns[calls] - last_end_ns)
    gaps = group_rows(
        np.append(group[call], group[calls]),
        np.append(before, last_line),
        np.append(line[inner], np.full(len(calls), -1)),
    )
    time_ns = group_sums(np.maximum(gap_ns, 0), gaps.group, len(gaps))
    order = order_rows(gaps.columns[0], -time_ns)
    of = gaps.columns[0][order]
    widest = order[np.append(True, of[1:] != of[:-1])[: len(order)]]
    return list(zip(*(column[widest].tolist() for column in gaps.columns), strict=True))


def is_coroutine(trace: TraceData, file: str, first: int) -> bool:
    """Whether the function that begins at a line is an ``async def``."""
    return isinstance(_function_at(_source(trace, file), first, first), ast.AsyncFunctionDef)


def keeping_line(trace: TraceData, file: str, first: int, line: int = -1) -> int:
    """Line at which a function stores what another line assigned in a list, dict or set; -1: none.

    Without ``line``, what it stores is an argument of the function, in a container that outlives
    the call.

    Args:
        trace: the recording, with texts of source lines.
        first: first line of the function.
        line: line of the assignment.
    """
    function = _function_at(_source(trace, file), first, max(line, first))
    nodes = [] if function is None else [*_nodes(function, -1, -1)]
    made = [one for one in nodes if isinstance(one, ast.Assign)]
    if line >= 0:
        made = [one for one in made if _is_around(one, line)]
    names = {name for one in made for target in one.targets for name in _names_in(target)}
    if line < 0 and function is not None:
        local, names = names, {one.arg for one in ast.walk(function) if isinstance(one, ast.arg)}
        nodes = [one for one in nodes if not _names_in_chain(one) & local]
    for node in nodes:
        stored: Sequence[ast.AST] = ()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            stored = node.args if node.func.attr in _KEEPING else ()
            if stored and _is_around(node, line):
                return node.lineno
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            stored = [node.value]
        if any(name in names for one in stored for name in _names_in(one, with_parts=line < 0)):
            return node.lineno
    return -1


def _names_in(node: ast.AST, with_parts: bool = False) -> Iterator[str]:
    """Names in an expression, without arguments of calls, which may use only a part of them.

    ``with_parts``: also x in ``x[0]``, ``x.y`` and ``x.detach()``, which may share its memory.
    """
    if isinstance(node, ast.Name):
        yield node.id
    if isinstance(node, ast.Call):
        shares = isinstance(node.func, ast.Attribute) and node.func.attr in _SHARING
        inner: Iterable[ast.AST] = [node.func] if with_parts and shares else []
    elif isinstance(node, ast.Attribute | ast.Subscript):
        inner = [node.value] if with_parts else []
    else:
        inner = ast.iter_child_nodes(node)
    for child in inner:
        yield from _names_in(child, with_parts)


def _names_in_chain(node: ast.AST) -> set[str]:
    """The name that an assignment or a call of a method begins with: x of ``x.y[0].append(z)``."""
    if isinstance(node, ast.Assign):
        node = node.targets[0]
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _line_between(source: str, first: int, before: int, after: int) -> int:
    """Line of the code between two calls: a loop, else the first call, else the next call's line.

    The next call's arguments may take long.
    """
    function = _function_at(source, first, max(before, after))
    if function is None:
        return before if before >= 0 else after if after >= 0 else first
    nodes = [*_nodes(function, before, after)]
    loops = [node for node in nodes if isinstance(node, _LOOPS)]
    between = [node for node in nodes if _is_between(node.lineno, before, after, loops)]
    next_calls = [node for node in nodes if node.lineno == after and isinstance(node, _OPERATIONS)]
    has_arguments = len(next_calls) > 1 and any(isinstance(node, ast.Call) for node in next_calls)
    candidates: tuple[Sequence[ast.expr | ast.stmt], ...] = (
        [one for one in between if isinstance(one, _COMPREHENSIONS) or _is_ended_loop(one, after)],
        [one for one in between if isinstance(one, ast.Call) and not _is_range(one)],
        # The first call made what the loop iterates over.
        [one for one in loops if one.lineno == before and _is_ended_loop(one, after)],
        next_calls if has_arguments else [],
        # Entering a ``with`` may wait for a lock.
        [o for o in between if isinstance(o, (*_OPERATIONS, ast.With)) and not _is_range(o)],
    )
    for found in candidates:
        if found:
            lines = [node.lineno for node in found]
            # In the next iteration, the rest of this one comes first.
            return min([line for line in lines if line > before] or lines)
    return max(before, first)


def _nodes(owner: ast.AST, before: int, after: int) -> Iterator[ast.expr | ast.stmt]:
    """Nodes that a function evaluates, without blocks that leave it or a loop before ``after``."""
    for _, value in ast.iter_fields(owner):
        block = [part for part in (value if isinstance(value, list) else [value])
                 if isinstance(part, ast.AST)]  # fmt: skip
        # Leaving a ``with`` has the line at which it was entered.
        is_left = isinstance(owner, ast.With | ast.AsyncWith) and owner.lineno == before
        leaves = isinstance(owner, _BRANCHES) and any(isinstance(part, _LEAVING) for part in block)
        if (is_left or leaves) and not any(_is_around(part, after) for part in block):
            continue
        for part in block:
            if isinstance(part, ast.expr | ast.stmt) and not isinstance(part, _OTHERS):
                yield part
            if not isinstance(part, _OTHERS):
                yield from _nodes(part, before, after)


def _is_between(line: int, before: int, after: int, loops: Sequence[ast.stmt]) -> bool:
    """Whether a line runs after ``before`` and before ``after``, maybe in a loop's next iteration.

    -1 for the begin of the function, and for its end.
    """
    around = [one for one in loops if _is_around(one, before) and _is_around(one, after)]
    if 0 <= after <= before and around:
        return before < line <= (around[-1].end_lineno or 0) or around[-1].lineno < line < after
    return before < line and (after < 0 or line < after)


def _is_ended_loop(node: ast.AST, after: int) -> bool:
    """Whether a node is a loop that ends before a line."""
    return isinstance(node, _LOOPS) and not _is_around(node, after)


def _is_range(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "range"


def _is_around(node: ast.AST, line: int) -> bool:
    """Whether a line is inside a node."""
    begin = getattr(node, "lineno", line + 1)
    return begin <= line <= (getattr(node, "end_lineno", None) or begin)


def _source(trace: TraceData, file: str) -> str:
    """Text of a file; empty if it cannot be read, or differs from the recorded lines."""
    lines = lines_of_source(file)
    is_same = all(
        0 < at <= len(lines) and lines[at - 1].strip().startswith(text)
        for at, text in _lines_by_file(trace).get(file, ())
    )
    return "".join(lines) if is_same else ""


@derived
def _lines_by_file(trace: TraceData) -> dict[str, list[tuple[int, str]]]:
    found: dict[str, list[tuple[int, str]]] = {}
    for (file, line), text in line_texts(trace).items():
        found.setdefault(file, []).append((line, text))
    return found


def _function_at(text: str, line: int, inside: int) -> ast.AST | None:
    """The function that begins at ``line``; for line 1, one with line ``inside``, or the module."""
    found = _functions(text).get(max(line, 1))
    if isinstance(found, ast.Module) and found.body and isinstance(found.body[0], _FUNCTIONS):
        one = found.body[0]  # may begin where the module does
        return one if one.lineno == 1 < inside <= (one.end_lineno or 1) else found
    return found


@lru_cache(maxsize=_MOST_FILES)
def _functions(text: str) -> Mapping[int, ast.AST]:
    """Functions of a source by first line; the module is at line 1."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    by_line: dict[int, ast.AST] = {1: tree} if text else {}
    for node in ast.walk(tree):
        if isinstance(node, (*_FUNCTIONS, ast.Lambda, *_COMPREHENSIONS)):
            decorators = [one.lineno for one in getattr(node, "decorator_list", [])]
            by_line.setdefault(min([node.lineno, *decorators]), node)
    return by_line
