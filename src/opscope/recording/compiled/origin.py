"""One operation of the program that generated code does, and where in the program it is."""

from __future__ import annotations

import itertools
import linecache
import os
import re
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from opscope.base.program_files import is_library

_FRAME = re.compile(r'^ *File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
_MOST_NODES = 256
_VARIABLE = re.compile(r"^[LG]\['[^']*'\]")
_MODULE_STEP = re.compile(r"\._modules\['([^']*)'\]|\['([^']*)'\]|\.([^.\[]+)")


@dataclass(frozen=True)
class Origin:
    """One node of the graph that was compiled."""

    node: str = ""  # its name there; empty where only its line is known
    operator: str = ""  # what the program called, as in ``aten.relu``; empty if that is not known
    file: str = ""  # where the program called it; empty if that is not known
    line: int = -1  # the line there, -1 if it is not known
    function: str = ""  # the function there
    # path of the module that called it, as in ``blocks.3.mlp``; empty if it is the outermost, or
    # not known
    module: str = ""


def origin_of_node(node: Any) -> Origin:
    """What inductor's graph says of one of its nodes."""
    meta = getattr(node, "meta", {})
    operator = meta.get("original_aten") or getattr(node, "target", "")
    placed = _with_place(node)
    stack = _modules_around(placed)
    file, line, function = place_in_stack(getattr(placed, "stack_trace", None) or "")
    if not file:
        file, line, function = _place_of_module(stack)
    return Origin(node.name, operator_text(operator), file, line, function, module_path(stack))


def _with_place(node: Any) -> Any:
    """The node, or where inductor has added that itself, the first that needs it and has a place.

    Such are the seeds of random numbers, and copies into another order of memory.
    """
    pending, seen = deque([node]), {node}
    while pending and len(seen) < _MOST_NODES:
        found = pending.popleft()
        if getattr(found, "stack_trace", None) or _modules_around(found):
            return found
        new = [user for user in getattr(found, "users", ()) if user not in seen]
        pending.extend(new)
        seen.update(new)
    return node


def _modules_around(node: Any) -> Mapping[str, tuple[str, Any]]:
    meta = getattr(node, "meta", {})
    return meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}


def _place_of_module(stack: Mapping[str, tuple[str, Any]]) -> tuple[str, int, str]:
    """Where the innermost module computes, for modules of torch itself, which stacks leave out."""
    for _, kind in reversed([entry for entry in stack.values() if isinstance(entry, tuple)]):
        code = getattr(getattr(kind, "forward", None), "__code__", None)
        if code is not None:
            return code.co_filename, code.co_firstlineno, code.co_name
    return "", -1, ""


def place_in_stack(text: str) -> tuple[str, int, str]:
    """File, line and function where the program is in a stack, as torch writes it.

    That is the innermost frame of the program's own; of libraries, where there is no such frame.
    """
    frames = [(file, int(line), function) for file, line, function in _FRAME.findall(text)]
    own = [frame for frame in frames if not is_library(frame[0])]
    return (own or frames or [("", -1, "")])[-1]


def present_place(place: tuple[str, int, str], stack: str) -> tuple[str, int, str]:
    """The same place in the file as it is now: a cache has kept where it was when it was compiled.

    That is the nearest line that says what the stack says, in a module that is loaded: in that
    file, or in one of its name where a program was moved or copied. Without one the place is not
    known, nor is it where another program was compiled to the same code.
    """
    old, line, function = place
    file = _loaded_as(old, len(sys.modules)) if old else ""
    if old and not file:
        return "", -1, ""
    statement = re.search(rf'File "{re.escape(old)}", line {line}, in .*\n(.*)', stack)
    lines = [text.strip() for text in linecache.getlines(file)] if file else []
    if statement is None or not statement.group(1).strip() or not lines:
        return place if file == old else ("", -1, "")
    same = [number for number, text in enumerate(lines, 1) if text == statement.group(1).strip()]
    nearest = min(same, key=lambda number: abs(number - line), default=-1)
    return (file, nearest, function) if nearest > 0 else ("", -1, "")


@lru_cache(maxsize=1024)
def _loaded_as(file: str, _: int) -> str:
    """The file, or else the one most like it, of the modules that there are by now; or empty."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    loaded = [known for known in files if known]
    if any(os.path.abspath(known) == os.path.abspath(file) for known in loaded):
        return file
    named = [known for known in loaded if os.path.basename(known) == os.path.basename(file)]
    own = [known for known in named if not is_library(known)]
    return max(own, key=lambda known: _common_parts(known, file), default="")


def _common_parts(one: str, other: str) -> int:
    """How many names at the end of two paths are the same."""
    pairs = zip(reversed(one.split(os.sep)), reversed(other.split(os.sep)), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def operator_text(operator: Any) -> str:
    """``aten.add`` for any overload of that; another function by its own name."""
    if isinstance(operator, str):
        return operator
    packet = getattr(operator, "_overloadpacket", operator)
    return str(packet) if hasattr(operator, "_schema") else str(getattr(packet, "__name__", packet))


def module_path(stack: Mapping[str, tuple[str, Any]]) -> str:
    """The path of the innermost module, as ``named_modules()`` of the outermost has it."""
    paths = [entry[0] for entry in stack.values() if isinstance(entry, tuple) and entry]
    innermost = next((path for path in reversed(paths) if isinstance(path, str)), "")
    rest = _VARIABLE.sub("", innermost)
    return ".".join(step for steps in _MODULE_STEP.findall(rest) for step in steps if step)


def without_doubles(origins: Iterable[Origin]) -> tuple[Origin, ...]:
    """Each once, in their order."""
    return tuple(dict.fromkeys(origins))
