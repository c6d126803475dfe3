"""Calls in inductor's generated files, with their source lines.

Origins recorded during code generation are exact; inductor's functions are wrapped at their import,
because most programs compile before they record. For code from a cache, also of another process,
inductor's comment above a call names its operations, and the cached line table has their stacks.
C++ kernels have no comment, but their names contain the operators.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from opscope.columns.codes import OriginsKnownFrom
from opscope.launch.torch_import import when_imported
from opscope.recording.compiled.compilations import note_calls
from opscope.recording.compiled.origin import (
    Origin,
    origin_of_node,
    place_in_stack,
    present_place,
    without_doubles,
)

_KEY = "_opscope_emitted"


@dataclass
class Emitted:
    """Calls generated so far for one graph."""

    # each call of a C++ kernel: its name and its operations
    kernels: list[tuple[str, tuple[Origin, ...]]] = field(default_factory=list)
    # operations of each other call, by comment above it
    comments: list[tuple[Origin, ...]] = field(default_factory=list)


def listen_to_generation() -> None:
    """Record the operations of C++ kernels, device kernels and operators that are called unchanged,
    once inductor's generators are imported."""
    for module, owner, name, note in (
        ("torch._inductor.codegen.cpp", "CppScheduling", "define_kernel", _kernel_defined),
        ("torch._inductor.codegen.simd", "SIMDScheduling", "codegen_comment", _kernel_commented),
        ("torch._inductor.ir", "ExternKernel", "codegen_comment", _extern_commented),
    ):
        when_imported(module, functools.partial(_wrap, module, owner, name, note))


def emitted_for_this_graph() -> Emitted | None:
    """Calls generated for the graph that this thread compiles; None if it compiles none."""
    return vars(_graph() or object).get(_KEY)


def _wrap(module: str, owner: str, name: str, note: Callable[..., None]) -> None:
    note_calls(getattr(sys.modules.get(module), owner, None), name, note)


def _kernel_defined(name: Any, _: Any, __: Any, nodes: Any, *___: Any) -> None:
    _emitted().kernels.append((str(name), tuple(_origins_of(nodes))))


def _extern_commented(_: Any, kernel: Any, *__: Any) -> None:
    _emitted().comments.append(tuple(_origins_of([kernel])))


def _kernel_commented(_: Any, __: Any, nodes: Any, *___: Any) -> None:
    _emitted().comments.append(tuple(_origins_of(nodes)))


def _origins_of(nodes: Any) -> Iterator[Origin]:
    """Operations that nodes of the scheduler, or of inductor's own graph, were made from."""
    found: dict[Any, None] = {}
    for node in nodes:
        inner = getattr(node, "node", None)
        origins = getattr(inner if inner is not None else node, "origins", None) or ()
        found.update(dict.fromkeys(origins))
    called = [node for node in found if node.op == "call_function"] or list(found)
    position = _positions(called[0].graph) if called else {}
    for node in sorted(called, key=lambda node: position.get(node, 0)):
        yield origin_of_node(node)


def _positions(graph: Any) -> dict[Any, int]:
    return {node: position for position, node in enumerate(graph.nodes)}


def _graph() -> Any:
    virtualized = sys.modules.get("torch._inductor.virtualized")
    graph = getattr(getattr(virtualized, "V", None), "graph", None)
    return graph if hasattr(graph, "__dict__") else None


def _emitted() -> Emitted:
    known = vars(_graph()).setdefault(_KEY, Emitted())
    assert isinstance(known, Emitted)
    return known


_CALLERS = re.compile(r"(call|g|partition_\w+|\w*subgraph_\w+)$")
_GRAPH_IN_CPP = "f"  # name of the function that Python calls if the graph is one function in C++

_COMMENT = re.compile(
    r"^ *# (?:Topologically Sorted|Unsorted)? ?Source Nodes: \[(.*?)\], Original ATen: \[(.*?)\]"
)
_BESIDE = re.compile(
    r"(assert_|empty_strided|reinterpret_tensor$|alloc_from_pool$|args\.clear$|get_raw_stream|"
    r"(print|len|device)$)"
)
"""Calls that allocate tensors or check arguments; they do no operation of the program."""


@dataclass(frozen=True)
class Site:
    """One line of generated code with a call."""

    line: int  # number in the file
    callee: str  # kernel or function, as written in the line
    is_cpp: bool  # whether a kernel in C++ is called
    nodes: tuple[str, ...] = ()  # graph nodes that the comment above names
    operators: tuple[str, ...] = ()  # operators that the comment above names
    comment: int = -1  # number of that comment in the file, from 0; -1 without one
    is_graph: bool = False  # whether the call is the whole graph, one function in C++
    origins: tuple[Origin, ...] = ()  # operations of the program that the call does
    known_from: OriginsKnownFrom = OriginsKnownFrom.NOTHING


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
    """The operators in a kernel name such as ``cpp_fused_add_relu_3``."""
    words = re.sub(r"^(cpp|triton)_(\w{2,4}_)?fused_?", "", kernel)
    text = re.sub(r"_?\d+$", "", words)
    return (text,) if text else ()


def graph_name(source: str) -> str:
    """Inductor's name of the graph in a file, such as ``0_forward``; empty if unknown."""
    found = re.search(r"^# AOT ID: \['(.*?)'\]", source, re.MULTILINE)
    return found.group(1) if found else ""


def _comments_in(lines: list[str]) -> dict[int, tuple[int, tuple[str, ...], tuple[str, ...]]]:
    """By line: number of the comment, and the nodes and operators that it names."""
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
    """Line and dotted name of each call in the functions that run the graph or a part of it."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and _CALLERS.match(function.name):
            for node in ast.walk(function):
                name = _dotted(node.func) if isinstance(node, ast.Call) else ""
                if name and not _is_method(name):
                    yield node.lineno, name.removesuffix(".run")  # type: ignore[attr-defined]


def _is_method(name: str) -> bool:
    """Whether a call is a method of a buffer or a stream, which has no name of its own."""
    head = name.split(".")[0]
    return re.fullmatch(r"(buf|arg|primals_|tangents_|getitem_|stream)\w*", head) is not None


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


LineTable = Sequence[tuple[int, str]]
"""First line of each graph node in the generated file, and the node's stack."""


def placed_sites(sites: Sequence[Site], table: LineTable, emitted: Emitted | None) -> list[Site]:
    """Every call with its origins: as recorded at generation, else from the cache."""
    noted = _noted(sites, emitted)
    stacks = _stacks_of(sites, table)
    return [
        replace(site, origins=known, known_from=OriginsKnownFrom.GENERATION)
        if (known := noted.get(index))
        else _from_cache(site, stacks[index])
        for index, site in enumerate(sites)
    ]


def _noted(sites: Sequence[Site], emitted: Emitted | None) -> dict[int, tuple[Origin, ...]]:
    """Recorded origins by index of the call. Calls are in the order of their generation."""
    if emitted is None:
        return {}
    found: dict[int, tuple[Origin, ...]] = {}
    kernels = iter(emitted.kernels)
    for index, site in enumerate(sites):
        if site.is_graph:
            own = [*(own for _, own in emitted.kernels), *emitted.comments]
            found[index] = without_doubles(itertools.chain(*own))
        elif site.is_cpp:
            found[index] = next((own for name, own in kernels if name == site.callee), ())
        elif 0 <= site.comment < len(emitted.comments):
            found[index] = emitted.comments[site.comment]
    return found


def _stacks_of(sites: Sequence[Site], table: LineTable) -> list[list[str]]:
    """Stacks of the nodes of each call, by index of the call.

    inductor writes a C++ kernel when the next call begins, so the line table lists the next call's
    node at the kernel's line.
    """
    stacks: list[list[str]] = [[] for _ in sites]
    entries = list(table)
    if sites and sites[0].is_graph:
        return [[stack for _, stack in entries]]
    for index, site in enumerate(sites):
        mine = [stack for line, stack in entries if line <= site.line]
        del entries[: len(mine)]
        stacks[index] += mine
        follower = sites[index + 1] if index + 1 < len(sites) else None
        if follower is None or follower.is_cpp or not site.is_cpp or len(stacks[index]) < 2:
            continue
        if not any(line <= follower.line for line, _ in entries):
            stacks[index + 1].append(stacks[index].pop())
    return stacks


def _from_cache(site: Site, stacks: Sequence[str]) -> Site:
    operators = site.operators or (
        operators_in_name(site.callee) if site.callee.startswith("cpp_") else ()
    )
    operator = ", ".join(operators)
    nodes = ", ".join(site.nodes)
    places = [present_place(place_in_stack(stack), stack) for stack in stacks if stack]
    origins = without_doubles(Origin(nodes, operator, *place) for place in places)
    if not origins and (nodes or operator):
        origins = (Origin(nodes, operator),)
    known_from = OriginsKnownFrom.CACHE if origins else OriginsKnownFrom.NOTHING
    return replace(site, origins=origins, known_from=known_from)
