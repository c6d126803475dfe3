"""What a file says that inductor generated: which lines call kernels and operators, and of what.

Above what it calls inductor writes, as comments, which operations of the program that does; not so
above kernels in C++, whose names still say which operators are in them. A generated file stays as
it is for as long as the cache has it, so this holds for code that another process compiled, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

_CALLERS = re.compile(r"(call|g|partition_\w+|\w*subgraph_\w+)$")
_GRAPH_IN_CPP = "f"
"""What Python calls where the graph is one function in C++, as the wrapper around it names that."""

_COMMENT = re.compile(
    r"^ *# (?:Topologically Sorted|Unsorted)? ?Source Nodes: \[(.*?)\], Original ATen: \[(.*?)\]"
)
_BESIDE = re.compile(
    r"(assert_|empty_strided|reinterpret_tensor$|alloc_from_pool$|args\.clear$|get_raw_stream|"
    r"(print|len|device)$)"
)
"""What generated code calls for itself: it makes tensors, and checks what it was given."""


@dataclass(frozen=True)
class Site:
    """One line of generated code that calls something.

    Attributes:
        line: its number in the file.
        callee: the kernel, or the function, as it is written there.
        is_cpp: it is a kernel in C++.
        nodes: what the comment above says of nodes of the program's graph.
        operators: likewise of operators.
        comment: which comment of the file that is, counted from 0; -1: there is none.
        is_graph: it is all of the graph, as one function in C++.
    """

    line: int
    callee: str
    is_cpp: bool
    nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    comment: int = -1
    is_graph: bool = False


def sites_in(source: str) -> list[Site]:
    """The lines of a generated file that call kernels and operators, in their order."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    lines = source.splitlines()
    comments = _comments_in(lines)
    calls = sorted({(line, name) for line, name in _calls_in(tree) if not _BESIDE.match(name)})
    sites: list[Site] = []
    for line, name in calls:
        number, nodes, operators = _comment_above(line, lines, comments)
        is_graph = name == _GRAPH_IN_CPP
        is_cpp = is_graph or name.startswith("cpp_")
        sites.append(Site(line, name, is_cpp, nodes, operators, number, is_graph))
    return [site for site in sites if site.is_graph] or sites


def operators_in_name(kernel: str) -> tuple[str, ...]:
    """The operators that a name such as ``cpp_fused_add_relu_3`` says, as far as that tells."""
    words = re.sub(r"^(cpp|triton)_(\w{2,4}_)?fused_?", "", kernel)
    text = re.sub(r"_?\d+$", "", words)
    return (text,) if text else ()


def graph_name(source: str) -> str:
    """What inductor calls the graph that a file is of: ``0_forward``."""
    found = re.search(r"^# AOT ID: \['(.*?)'\]", source, re.MULTILINE)
    return found.group(1) if found else ""


def _comments_in(lines: list[str]) -> dict[int, tuple[int, tuple[str, ...], tuple[str, ...]]]:
    """By number of the line: which comment it is, the nodes and the operators it names."""
    found: dict[int, tuple[int, tuple[str, ...], tuple[str, ...]]] = {}
    for number, line in enumerate(lines, 1):
        if match := _COMMENT.match(line):
            nodes, operators = (_listed(text) for text in match.groups())
            found[number] = len(found), nodes, operators
    return found


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(", ") if part)


def _comment_above(
    line: int,
    lines: list[str],
    comments: dict[int, tuple[int, tuple[str, ...], tuple[str, ...]]],
) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    at = line - 1
    while at > 0 and lines[at - 1].lstrip().startswith("#"):
        if at in comments:
            return comments[at]
        at -= 1
    return -1, (), ()


def _calls_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What the functions that run the graph, or a part of it, call: line and dotted name."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and _CALLERS.match(function.name):
            for node in ast.walk(function):
                name = _dotted(node.func) if isinstance(node, ast.Call) else ""
                if name and not _is_method(name):
                    yield node.lineno, name.removesuffix(".run")  # type: ignore[attr-defined]


def _is_method(name: str) -> bool:
    """Of a buffer or a stream: nothing that has a name of its own."""
    head = name.split(".")[0]
    return re.fullmatch(r"(buf|arg|primals_|tangents_|getitem_|stream)\w*", head) is not None


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""
