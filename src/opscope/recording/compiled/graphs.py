"""Records runs of torch.compile's graphs and of their kernels as spans.

A graph is a Python module that inductor has compiled or loaded from a cache. While a window records
graphs, the module's functions are replaced, and afterwards restored; nothing is compiled again.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import opscope._native as _native
from opscope.launch.torch_import import when_imported
from opscope.recording.compiled.compilations import listen_to_compilations, note_calls
from opscope.recording.compiled.generated_code import (
    Emitted,
    Site,
    emitted_for_this_graph,
    graph_name,
    listen_to_generation,
    placed_sites,
    sites_in,
)

_CACHE = "torch._inductor.codecache"
_KERNEL = "cpp_"
_GRAPH = "_opscope_recorded_graph"
_emitted: dict[str, Emitted] = {}
_listening: set[int] = set()
_hooked: dict[int, weakref.ref[Any]] = {}
"""Modules whose graph and kernels are recorded, by ``id()``.

Not a set of weak references: a signal handler that records during an iteration would change the
set, and the iteration would raise.
"""
when_loaded: list[Callable[[str], object]] = []
"""Called with the file of every graph that is loaded while a recording wants graphs."""


def notice_loaded_graphs() -> None:
    """Hook every graph as it is loaded; inductor's cache was just imported."""
    cache = getattr(sys.modules.get(_CACHE), "PyCodeCache", None)
    note_calls(cache, "load_by_key_path", lambda module, *_: _loaded(module), is_static=True)


def begin_listening(window: int) -> None:
    """Record graphs and their kernels until all windows that began have ended."""
    _listening.add(window)
    for module in list(_loaded_modules()):
        _hook(module)


def end_listening(window: int) -> None:
    """Restore graphs and kernels, unless another window listens."""
    _listening.discard(window)
    for number, reference in list(_hooked.items()):
        if _listening:
            return
        if (module := reference()) is None:
            _hooked.pop(number, None)
            continue
        _unhook(module)
        if _listening:  # a signal handler began a window before this one was restored
            _hook(module)


def sites_of(files: Iterable[str]) -> dict[str, tuple[str, list[Site]]]:
    """Graph name and calls of those ``files`` that this process has loaded, by file."""
    wanted = set(files)
    cache = getattr(sys.modules.get(_CACHE), "PyCodeCache", None)
    tables = getattr(cache, "linemaps", {})
    found: dict[str, tuple[str, list[Site]]] = {}
    for module in _loaded_modules():
        file = getattr(module, "__file__", None) or ""
        if file in wanted and file not in found:
            source = _text_of(file)
            table = list(zip(*tables.get(file, ()), strict=False))
            placed = placed_sites(sites_in(source), table, _emitted.get(file))
            found[file] = graph_name(source), placed
    return found


def loaded_files() -> set[str]:
    """Generated files of all graphs that are loaded here."""
    return {file for m in _loaded_modules() if (file := getattr(m, "__file__", None))}


def _loaded_modules() -> Iterator[ModuleType]:
    cache = getattr(sys.modules.get(_CACHE), "PyCodeCache", None)
    modules = getattr(cache, "modules", ())
    # A dictionary by key in older versions of torch.
    yield from list(modules.values() if isinstance(modules, dict) else modules)


def _loaded(module: Any) -> None:
    file = getattr(module, "__file__", None)
    emitted = emitted_for_this_graph()
    if file is not None and emitted is not None:
        _emitted[file] = emitted
    if _listening:
        _hook(module)
        if file is not None:
            for listener in when_loaded:
                listener(file)


def _hook(module: Any) -> None:
    names = getattr(module, "__dict__", {})
    function = _graph_function(names)
    if function is None or _GRAPH in names:
        return
    _hooked[id(module)] = weakref.ref(module)
    text = f"Compiled graph {graph_name(_text_of(module.__file__)) or function.__name__}"
    recorded = _native.recorded_graph(_copy_of(function), text)
    # The first of two threads wins: the second may have copied the detour.
    if names.setdefault(_GRAPH, recorded) is not recorded:
        return
    function.__code__ = _detour(function)
    for key, value in list(names.items()):
        if key.startswith(_KERNEL) and isinstance(value, BuiltinFunctionType):
            names[key] = _native.recorded_kernel(value, key)


def _unhook(module: Any) -> None:
    names = module.__dict__
    function, recorded = _graph_function(names), names.get(_GRAPH)
    # A signal handler may do the same at any point in this function.
    if function is not None and recorded is not None:
        function.__code__ = _native.unrecorded(recorded).__code__
    for key, value in list(names.items()):
        if key.startswith(_KERNEL):
            names[key] = _native.unrecorded(value)
    _hooked.pop(id(module), None)
    names.pop(_GRAPH, None)  # from here on it can be hooked again


def _graph_function(names: Mapping[str, Any]) -> FunctionType | None:
    call = names.get("call")
    function = call.__func__ if isinstance(call, MethodType) else call
    return function if isinstance(function, FunctionType) else None


def _copy_of(function: FunctionType) -> FunctionType:
    defaults, closure = function.__defaults__, function.__closure__
    globals_ = function.__globals__
    return FunctionType(function.__code__, globals_, function.__name__, defaults, closure)


def _detour(function: FunctionType) -> CodeType:
    """Code for ``function`` that calls the recorded graph.

    torch keeps a reference to the function, so only its code can be exchanged. The new code has the
    same free variables.
    """
    code = function.__code__
    free = code.co_freevars
    made = "".join(f"    {name} = None\n" for name in free)
    uses = "".join(f"        {name}\n" for name in free)
    text = f"def outer():\n{made}    def call(*args):\n        return {_GRAPH}(*args)\n{uses}"
    scope = compile(text, code.co_filename, "exec").co_consts
    outer = next(value for value in scope if isinstance(value, CodeType))
    inner = next(value for value in outer.co_consts if isinstance(value, CodeType))
    return inner.replace(co_name=f"{code.co_name} (recorded)", co_firstlineno=code.co_firstlineno)


def _text_of(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read()
    except OSError:
        return ""


def listen_to_compiling() -> None:
    """Record compilations and loaded graphs from now on; dynamo's utilities were just imported."""
    listen_to_compilations()
    when_imported("torch._inductor.codecache", notice_loaded_graphs)
    listen_to_generation()
