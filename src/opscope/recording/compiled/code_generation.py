"""Records the graph nodes of generated calls while inductor generates code.

Wraps inductor's functions at their import, because most programs compile before they record.
``generated_code.py`` handles code from a cache.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from opscope.recording.compiled.compilations import note_calls
from opscope.recording.compiled.origin import Origin, origin_of_node

_KEY = "_opscope_emitted"


@dataclass
class Emitted:
    """Calls generated so far for one graph."""

    # each call of a C++ kernel: its name and its operations
    kernels: list[tuple[str, tuple[Origin, ...]]] = field(default_factory=list)
    # operations of each other call, by comment above it
    comments: list[tuple[Origin, ...]] = field(default_factory=list)


def listen_to_cpp() -> None:
    """Record the operations of C++ kernels; inductor's generator was just imported."""
    _wrap("torch._inductor.codegen.cpp", "CppScheduling", "define_kernel", _kernel_defined)


def listen_to_other_calls() -> None:
    """Record the operations of operators that generated code calls unchanged."""
    _wrap("torch._inductor.ir", "ExternKernel", "codegen_comment", _extern_commented)


def listen_to_device_kernels() -> None:
    """Record the operations of device kernels."""
    _wrap("torch._inductor.codegen.simd", "SIMDScheduling", "codegen_comment", _kernel_commented)


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
