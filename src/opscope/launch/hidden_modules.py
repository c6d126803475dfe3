"""Hides opscope's imports from the program.

An import finds a module in ``sys.modules`` before any file: the program's own ``statistics.py``
would never be found. So modules that Python does not import at start are removed from
``sys.modules``. When the program imports such a name, it is searched as usual. If the result is
opscope's file, the program gets opscope's module: many C modules cannot be loaded twice, and
classes must be the same. Otherwise it gets its own. opscope's modules have their own references.
"""

from __future__ import annotations

import _thread
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

_STANDARD = os.path.dirname(os.__file__) + os.sep

_hidden: HiddenModules | None = None


def hide_modules() -> None:
    """Hide opscope's imports from the program; once, before the program begins.

    Modules that Python itself imports at start stay, including those of ``.pth`` files: everything
    imported before ``site`` was complete. Later imports are of the command's script.
    """
    global _hidden
    opscope = vars(sys.modules["opscope"])
    before: list[str] = opscope["_imported_before"]
    of_start = frozenset(before[: before.index("site") + 1] if "site" in before else before)
    families: dict[str, dict[str, ModuleType]] = {}
    for name, module in list(sys.modules.items()):
        if not _is_of_start(name, of_start):
            families.setdefault(name.partition(".")[0], {})[name] = module
    for top, family in list(families.items()):
        if getattr(family.get(top, sys), "__spec__", None) is None:  # made by C code
            del families[top]
    _hidden = HiddenModules(families, _without(opscope["_filters_before"]))
    for family in families.values():
        for name in family:
            del sys.modules[name]
    sys.meta_path.insert(0, _hidden)


def _is_of_start(name: str, of_start: frozenset[str]) -> bool:
    if name in of_start or name.partition(".")[0] in ("opscope", "encodings"):
        return True
    return name == "warnings" and bool(sys.warnoptions)


def _without(before: tuple[Any, ...]) -> list[Any]:
    """Remove warning filters that opscope's imports have set; returns them."""
    set_since = [one for one in warnings.filters if one not in before]
    for one in set_since:
        warnings.filters.remove(one)  # type: ignore[attr-defined]
    _filters_have_changed()
    return set_since


def _filters_have_changed() -> None:
    with warnings.catch_warnings():  # this clears the cached decisions
        pass


def with_own_modules(work: Callable[[], None]) -> Callable[[], None]:
    """``work``, with opscope's own modules in place of the program's of the same names."""

    def work_with_own() -> None:
        if _hidden is None:
            return work()
        with _hidden.swapped():
            work()

    return work_with_own


class HiddenModules(MetaPathFinder):
    """Hidden modules by top-level name; finds them again for the program."""

    def __init__(self, families: dict[str, dict[str, ModuleType]], filters: list[Any]) -> None:
        self._families = families
        self._filters = filters
        self._others: dict[str, dict[str, ModuleType]] = {}  # the program has its own modules
        self._search = sys.path[1:]  # without the command's folder
        self._working: int | None = None  # the thread that imports for opscope
        self._imported: list[str] = []  # imported by that thread

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Spec of opscope's module, if the program's import would find the same file."""
        top = fullname.partition(".")[0]
        if self._working == _thread.get_ident() and top == fullname:
            return self._found_for_opscope(fullname)
        family = self._families.get(top)
        if family is None or fullname not in family:
            return None
        module = family[fullname]
        found = self._found_by_others(fullname, path, target)
        if found is None:
            return None
        if not _is_same(found, module):
            if fullname == top:
                self._others[top] = family
            return found
        return self._giving_back(fullname, found, module)

    def _giving_back(self, name: str, found: ModuleSpec, module: ModuleType) -> ModuleSpec:
        # Finding a module does not import it: nothing changes yet.
        found.loader = _HandBack(self, name, module, found.loader)
        return found

    def gave_back(self, name: str) -> None:
        """Show a module to the program, with the package's own imports."""
        family = self._families.get(name.partition(".")[0], {})
        given = {name: module} if (module := family.pop(name, None)) is not None else {}
        if self._filters and name.partition(".")[0] not in sys.stdlib_module_names:
            warnings.filters[:0] = self._filters  # type: ignore[index]
            self._filters = []
            __import__("warnings")
            _filters_have_changed()
        if "." not in name:
            given |= self._families.pop(name, {})
        for part, module in given.items():
            sys.modules.setdefault(part, module)
        for needed in {one for module in given.values() for one in _modules_used_by(module)}:
            if needed in self._families.get(needed, ()):
                with suppress(Exception):  # a module of the program with this name
                    __import__(needed)

    def _found_for_opscope(self, name: str) -> ModuleSpec | None:
        if name in sys.builtin_module_names:
            return None
        self._imported.append(name)
        found = PathFinder.find_spec(name, self._search)
        module = self._families.get(name, {}).get(name)
        return found if found is None or module is None else self._giving_back(name, found, module)

    def _found_by_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None:
                found: ModuleSpec | None = find(fullname, path, target)
                if found is not None:
                    return found
        return None

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Put opscope's modules in place of the program's of the same names."""
        if self._working is not None:
            yield
            return
        self._working = _thread.get_ident()
        theirs: dict[str, ModuleType] = {}
        for top in {*self._others, *_in_place_of_standard()}:
            theirs |= _taken(top)
        shown = {n: m for family in self._families.values() for n, m in family.items()}
        shown = {name: module for name, module in shown.items() if name not in sys.modules}
        sys.modules.update(shown)
        try:
            yield
        finally:
            self._working = None
            for name in shown.keys() & sys.modules.keys():
                del sys.modules[name]
            for top in [*self._others, *filter(self._is_shadowed, self._imported)]:
                self._families.setdefault(top, {}).update(_taken(top))
                self._others[top] = self._families[top]
            self._imported.clear()
            sys.modules.update(theirs)

    def _is_shadowed(self, name: str) -> bool:
        if name not in sys.modules:
            return False
        found = self._found_by_others(name, None, None)
        return found is not None and not _is_same(found, sys.modules[name])


def _modules_used_by(module: ModuleType) -> Iterator[str]:
    """Top-level names of the modules that a module imported, fully or in part."""
    for value in list(vars(module).values()):
        kind = type(value)  # isinstance() makes some torch objects warn
        is_made_there = issubclass(kind, type | FunctionType | BuiltinFunctionType)
        name = value.__name__ if issubclass(kind, ModuleType) else None
        name = getattr(value, "__module__", None) if is_made_there else name
        if isinstance(name, str):
            yield name.partition(".")[0]


def _in_place_of_standard() -> Iterator[str]:
    """Names of the standard library that the program's modules have."""
    for name in sys.stdlib_module_names & sys.modules.keys():
        origin = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None) or ""
        if os.path.isabs(origin) and not origin.startswith(_STANDARD):
            yield name


def _taken(top: str) -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name == top or name.startswith(f"{top}.")]
    return {name: sys.modules.pop(name) for name in names}


def _is_same(found: ModuleSpec, module: ModuleType) -> bool:
    known = module.__spec__
    if known is None or found.origin is None or known.origin is None:
        return known is not None and found.origin == known.origin
    if found.origin == known.origin:
        return True
    try:
        return os.path.samefile(found.origin, known.origin)
    except OSError:
        return False


_SET_BY_IMPORTS = ("__spec__", "__loader__", "__package__", "__file__", "__path__", "__cached__")


class _HandBack(Loader):
    """Loader that returns an existing module unchanged."""

    def __init__(self, hidden: HiddenModules, name: str, module: ModuleType, loader: Any) -> None:
        self._hidden, self._name, self._module, self._loader = hidden, name, module, loader
        known = vars(module)
        self._attributes = {name: known[name] for name in _SET_BY_IMPORTS if name in known}

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the attributes that the import has set; the module ran before."""
        known: dict[str, Any] = vars(module)
        for name in _SET_BY_IMPORTS:
            known.pop(name, None)
        known.update(self._attributes)
        self._hidden.gave_back(self._name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
