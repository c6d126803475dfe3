"""Origins of generated code: operations of the program, and their source locations."""

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
    """One node of the compiled graph."""

    node: str = ""  # name in the graph; empty if only the line is known
    operator: str = ""  # operator that the program called, such as ``aten.relu``; empty if unknown
    file: str = ""  # file of the call; empty if unknown
    line: int = -1  # line of the call; -1 if unknown
    function: str = ""  # function with the call
    module: str = ""  # calling module, such as ``blocks.3.mlp``; empty: outermost or unknown


def origin_of_node(node: Any) -> Origin:
    """The origin of one node of inductor's graph."""
    meta = getattr(node, "meta", {})
    operator = meta.get("original_aten") or getattr(node, "target", "")
    placed = _with_place(node)
    stack = _modules_around(placed)
    file, line, function = place_in_stack(getattr(placed, "stack_trace", None) or "")
    if not file:
        file, line, function = _place_of_module(stack)
    return Origin(node.name, operator_text(operator), file, line, function, module_path(stack))


def _with_place(node: Any) -> Any:
    """The node or, if inductor added it, its first user with a source location.

    Inductor adds seeds of random numbers and copies into another memory order.
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
    """Place of the innermost module's forward(), for modules of torch, which stacks omit."""
    for _, kind in reversed([entry for entry in stack.values() if isinstance(entry, tuple)]):
        code = getattr(getattr(kind, "forward", None), "__code__", None)
        if code is not None:
            return code.co_filename, code.co_firstlineno, code.co_name
    return "", -1, ""


def place_in_stack(text: str) -> tuple[str, int, str]:
    """File, line and function of the program in a stack, as torch writes it.

    The innermost frame of the program's own code; of libraries if there is none.
    """
    frames = [(file, int(line), function) for file, line, function in _FRAME.findall(text)]
    own = [frame for frame in frames if not is_library(frame[0])]
    return (own or frames or [("", -1, "")])[-1]


def present_place(place: tuple[str, int, str], stack: str) -> tuple[str, int, str]:
    """Current location of a place in inductor's cache, which is as old as the compilation.

    Finds the nearest line with the same text in that file or, if the program was moved, in a loaded
    module of the same name. ``("", -1, "")`` without such a line, for example if another program
    was compiled to the same code.
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
    """The file if a loaded module has it, else the most similar file of one; empty without any."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    loaded = [known for known in files if known]
    if any(os.path.abspath(known) == os.path.abspath(file) for known in loaded):
        return file
    named = [known for known in loaded if os.path.basename(known) == os.path.basename(file)]
    own = [known for known in named if not is_library(known)]
    return max(own, key=lambda known: _common_parts(known, file), default="")


def _common_parts(one: str, other: str) -> int:
    pairs = zip(reversed(one.split(os.sep)), reversed(other.split(os.sep)), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def operator_text(operator: Any) -> str:
    """``aten.add`` for any overload of it; the function's name for other functions."""
    if isinstance(operator, str):
        return operator
    packet = getattr(operator, "_overloadpacket", operator)
    return str(packet) if hasattr(operator, "_schema") else str(getattr(packet, "__name__", packet))


def module_path(stack: Mapping[str, tuple[str, Any]]) -> str:
    """Path of the innermost module, as in ``named_modules()`` of the outermost."""
    paths = [entry[0] for entry in stack.values() if isinstance(entry, tuple) and entry]
    innermost = next((path for path in reversed(paths) if isinstance(path, str)), "")
    rest = _VARIABLE.sub("", innermost)
    return ".".join(step for steps in _MODULE_STEP.findall(rest) for step in steps if step)


def without_doubles(origins: Iterable[Origin]) -> tuple[Origin, ...]:
    """The origins in their order, each once."""
    return tuple(dict.fromkeys(origins))
