"""Which module of a package imports which, read from the source; nothing is imported for it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple


class Import(NamedTuple):
    """One module imports another; names are those below the package.

    Attributes:
        source: who imports.
        target: what is imported.
        at_once: when ``source`` is imported; otherwise in a function, or by type checkers only.
    """

    source: str
    target: str
    at_once: bool


def modules_in(package: Path) -> dict[str, Path]:
    """Files by module name below the package; that of a folder is its ``__init__``."""
    return {_module_name(file.relative_to(package)): file for file in package.rglob("*.py")}


def imports_in(package: Path, compiled: Iterable[str] = ()) -> set[Import]:
    """Every import of one module of ``package`` by another.

    Args:
        package: its folder.
        compiled: modules that have no source.
    """
    modules = modules_in(package)
    known = {*modules, *compiled}
    found = set()
    for name, file in modules.items():
        for target, at_once in _imported(ast.parse(file.read_text()), package.name, known):
            if target != name:
                found.add(Import(name, target, at_once))
    return found


def circles(edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Groups of modules each of which imports, over others, itself (Tarjan's algorithm)."""
    following: dict[str, list[str]] = {}
    for source, target in edges:
        following.setdefault(source, []).append(target)
    return [sorted(group) for group in _components(following) if len(group) > 1]


def _module_name(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _imported(tree: ast.AST, package: str, known: set[str]) -> Iterator[tuple[str, bool]]:
    for node, at_once in _import_statements(tree, True):
        for name in _names(node, package, known):
            yield name, at_once


def _import_statements(tree: ast.AST, at_once: bool) -> Iterator[tuple[ast.stmt, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, at_once
            continue
        later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        yield from _import_statements(node, at_once and not later and not types)


def _names(node: ast.stmt, package: str, known: set[str]) -> Iterator[str]:
    """Modules that a statement imports. A name that is no module is taken from one."""
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"relative import in line {node.lineno}"
        asked = [(f"{node.module}.{alias.name}", node.module or "") for alias in node.names]
    else:
        asked = [(alias.name, alias.name) for alias in getattr(node, "names", ())]
    for whole, module in asked:
        for name in (whole, module):
            top, _, rest = name.partition(".")
            if top == package and (rest or "__init__") in known:
                yield rest or "__init__"
                break


def _components(following: Mapping[str, list[str]]) -> Iterator[list[str]]:
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []

    def visit(name: str) -> Iterator[list[str]]:
        number[name] = lowest[name] = len(number)
        path.append(name)
        for target in following.get(name, ()):
            if target not in number:
                yield from visit(target)
            if target in path:
                lowest[name] = min(lowest[name], lowest[target])
        if lowest[name] == number[name]:
            place = path.index(name)
            yield path[place:]
            del path[place:]

    for name in sorted(following):
        if name not in number:
            yield from visit(name)
