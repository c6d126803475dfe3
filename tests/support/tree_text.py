"""Event trees as indented lines, of opscope and of torch.profiler alike."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch

import opscope
from support.recorded import without_collections

PYTHON_FUNCTION = re.compile(r"^(.*\.pyx?|<.*>)\(\d+\): ")
C_FUNCTION = re.compile(r"^<built-in |^<method |^<slot wrapper |^<class ")
# What a profiler does to start and stop is not part of the program.
OF_PROFILERS = re.compile(r"^torch/profiler/profiler\.py|^weakref\.py")

# When it begins, torch 2.8 takes Python functions on the stack for C functions that run: in each
# function there it lists a call of "<function theirs at 0x...>", around all that follows.
INVENTED = re.compile(r"^<function ") if torch.__version__.startswith("2.8.") else None

WITHOUT_LINES = (
    (re.compile(r"\((\d+)\): "), "(...): "),
    (re.compile(r" object at 0x[0-9a-fA-F]+>"), " object>"),
)

# From 3.12 on the two hear of C functions in different ways, and of other ones.
SAME_FUNCTIONS = sys.version_info < (3, 12)


def name_of(node: Any) -> str:
    """The node's name, without what differs from run to run or from version to version."""
    name = str(node.name)
    for pattern, replacement in WITHOUT_LINES:
        name = pattern.sub(replacement, name)
    return name


def lines(
    nodes: Iterable[Any], with_functions: bool = True, with_modules: bool = True, depth: int = 0
) -> list[str]:
    """Two spaces per level; what is left out has what it called in its place."""
    found = []
    for node in nodes:
        name = str(node.name)
        if OF_PROFILERS.match(name):
            continue
        is_function = PYTHON_FUNCTION.match(name) or C_FUNCTION.match(name)
        is_module = name.startswith("nn.Module: ")
        shown = (with_functions or not is_function) and (with_modules or not is_module)
        shown = shown and not (INVENTED and INVENTED.match(name))
        if shown:
            found.append("  " * depth + name_of(node))
        found += lines(node.children, with_functions, with_modules, depth + shown)
    return found


def inside(roots: Iterable[Any]) -> list[Any]:
    """What the program did, without the functions around the profiler."""
    pending = list(roots)
    found = list(pending)
    while pending:
        node = pending.pop()
        if node.name.endswith(f": {_profiled.__name__}"):
            found = list(node.children)
        pending += node.children
    return found


def ours(program: Callable[[], object], **options: Any) -> Any:
    """The finished opscope.profile of a program."""
    return _profiled(opscope.profile, program, options)


def theirs(program: Callable[[], object], **options: Any) -> list[Any]:
    """torch.profiler's event tree of a program."""
    prof = _profiled(torch.profiler.profile, program, options)
    roots: list[Any] = prof.profiler.kineto_results.experimental_event_tree()
    return roots


def _profiled(profiler: Any, program: Callable[[], object], options: dict[str, Any]) -> Any:
    gc.collect()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with without_collections(), profiler(activities=activities, **options) as prof:
        program()
    return prof


def outline(nodes: Iterable[Any], name_of: Callable[[Any], str]) -> str:
    """What has a name nested as it ran, in order; what has none shows what is in it instead."""
    found = []
    for node in nodes:
        name, inside = name_of(node), outline(node.children, name_of)
        found.append(f"{name}({inside})" if name and inside else name or inside)
    return " ".join(filter(None, found))
