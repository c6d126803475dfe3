"""Hides opscope's imports from the program.

Python looks for a module in ``sys.modules`` before it looks for a file, so it would never find the
program's own ``statistics.py``. So opscope removes its imports from ``sys.modules``; its modules
keep references to them. If the program imports such a name and the search finds the same file, it
gets opscope's module: many C modules cannot be loaded twice. Otherwise it gets its own module.
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
    imported before ``site`` was complete. The command's script made the later imports.
    """
    global _hidden
    opscope = vars(sys.modules["opscope"])
    before: list[str] = opscope["_imported_before"]
    startup_modules = frozenset(before[: before.index("site") + 1] if "site" in before else before)
    families: dict[str, dict[str, ModuleType]] = {}
    for name, module in list(sys.modules.items()):
        if not _is_startup_module(name, startup_modules):
            families.setdefault(name.partition(".")[0], {})[name] = module
    for top, family in list(families.items()):
        if getattr(family.get(top, sys), "__spec__", None) is None:  # made by C code
            del families[top]
    _hidden = HiddenModules(families, _remove_new_filters(opscope["_filters_before"]))
    for family in families.values():
        for name in family:
            del sys.modules[name]
    sys.meta_path.insert(0, _hidden)


def _is_startup_module(name: str, startup_modules: frozenset[str]) -> bool:
    is_kept = name in startup_modules or name.partition(".")[0] in ("opscope", "encodings")
    return is_kept or (name == "warnings" and bool(sys.warnoptions))


def _remove_new_filters(earlier_filters: tuple[Any, ...]) -> list[Any]:
    new_filters = [entry for entry in warnings.filters if entry not in earlier_filters]
    for entry in new_filters:
        warnings.filters.remove(entry)  # type: ignore[attr-defined]
    _clear_filter_cache()
    return new_filters


def _clear_filter_cache() -> None:
    with warnings.catch_warnings():  # entering clears Python's cache of filter decisions
        pass


def with_own_modules(work: Callable[[], None]) -> Callable[[], None]:
    """Wrap ``work``: in it, imports find opscope's modules, not the program's of the same names."""

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
        self._shadowed: dict[str, dict[str, ModuleType]] = {}  # the program imported its own
        self._search = sys.path[1:]  # without the command's folder
        self._importing_thread: int | None = None  # the thread that imports for opscope
        self._opscope_imports: list[str] = []  # imported by that thread

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Spec of opscope's module, if the program's import would find the same file."""
        top = fullname.partition(".")[0]
        if self._importing_thread == _thread.get_ident() and top == fullname:
            return self._find_for_opscope(fullname)
        family = self._families.get(top)
        if family is None or fullname not in family:
            return None
        module = family[fullname]
        spec = self._find_with_other_finders(fullname, path, target)
        if spec is None:
            return None
        if not _is_same(spec, module):
            if fullname == top:
                self._shadowed[top] = family
            return spec
        return self._wrap_spec(fullname, spec, module)

    def _wrap_spec(self, name: str, spec: ModuleSpec, module: ModuleType) -> ModuleSpec:
        # A search imports nothing, so the module stays hidden until it is loaded.
        spec.loader = _ExistingModuleLoader(self, name, module, spec.loader)
        return spec

    def gave_back(self, name: str) -> None:
        """Make a module visible to the program, with the modules that its package imported."""
        family = self._families.get(name.partition(".")[0], {})
        visible = {name: module} if (module := family.pop(name, None)) is not None else {}
        if self._filters and name.partition(".")[0] not in sys.stdlib_module_names:
            warnings.filters[:0] = self._filters  # type: ignore[index]
            self._filters = []
            __import__("warnings")
            _clear_filter_cache()
        if "." not in name:
            visible |= self._families.pop(name, {})
        for module_name, module in visible.items():
            sys.modules.setdefault(module_name, module)
        for top in {used for module in visible.values() for used in _modules_used_by(module)}:
            if top in self._families.get(top, ()):
                with suppress(Exception):  # a module of the program with this name
                    __import__(top)

    def _find_for_opscope(self, name: str) -> ModuleSpec | None:
        if name in sys.builtin_module_names:
            return None
        self._opscope_imports.append(name)
        spec = PathFinder.find_spec(name, self._search)
        module = self._families.get(name, {}).get(name)
        return spec if spec is None or module is None else self._wrap_spec(name, spec, module)

    def _find_with_other_finders(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None:
                spec: ModuleSpec | None = find(fullname, path, target)
                if spec is not None:
                    return spec
        return None

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Put opscope's modules in place of the program's of the same names."""
        if self._importing_thread is not None:
            yield
            return
        self._importing_thread = _thread.get_ident()
        program_modules: dict[str, ModuleType] = {}
        for top in {*self._shadowed, *_names_shadowing_standard_library()}:
            program_modules |= _pop_family(top)
        visible = {n: m for family in self._families.values() for n, m in family.items()}
        visible = {name: module for name, module in visible.items() if name not in sys.modules}
        sys.modules.update(visible)
        try:
            yield
        finally:
            self._importing_thread = None
            for name in visible.keys() & sys.modules.keys():
                del sys.modules[name]
            for top in [*self._shadowed, *filter(self._is_shadowed, self._opscope_imports)]:
                self._families.setdefault(top, {}).update(_pop_family(top))
                self._shadowed[top] = self._families[top]
            self._opscope_imports.clear()
            sys.modules.update(program_modules)

    def _is_shadowed(self, name: str) -> bool:
        if name not in sys.modules:
            return False
        spec = self._find_with_other_finders(name, None, None)
        return spec is not None and not _is_same(spec, sys.modules[name])


def _modules_used_by(module: ModuleType) -> Iterator[str]:
    """Top-level names of the modules that a module imported, fully or in part."""
    for value in list(vars(module).values()):
        kind = type(value)  # isinstance() makes some torch objects warn
        is_made_there = issubclass(kind, type | FunctionType | BuiltinFunctionType)
        name = value.__name__ if issubclass(kind, ModuleType) else None
        name = getattr(value, "__module__", None) if is_made_there else name
        if isinstance(name, str):
            yield name.partition(".")[0]


def _names_shadowing_standard_library() -> Iterator[str]:
    for name in sys.stdlib_module_names & sys.modules.keys():
        origin = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None) or ""
        if os.path.isabs(origin) and not origin.startswith(_STANDARD):
            yield name


def _pop_family(top: str) -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name == top or name.startswith(f"{top}.")]
    return {name: sys.modules.pop(name) for name in names}


def _is_same(spec: ModuleSpec, module: ModuleType) -> bool:
    own_spec = module.__spec__
    if own_spec is None or spec.origin is None or own_spec.origin is None:
        return own_spec is not None and spec.origin == own_spec.origin
    if spec.origin == own_spec.origin:
        return True
    try:
        return os.path.samefile(spec.origin, own_spec.origin)
    except OSError:
        return False


_SET_BY_IMPORTS = ("__spec__", "__loader__", "__package__", "__file__", "__path__", "__cached__")


class _ExistingModuleLoader(Loader):
    """Loader that returns an existing module unchanged."""

    def __init__(self, hidden: HiddenModules, name: str, module: ModuleType, loader: Any) -> None:
        self._hidden, self._name, self._module, self._loader = hidden, name, module, loader
        values = vars(module)
        self._attributes = {name: values[name] for name in _SET_BY_IMPORTS if name in values}

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the attributes that this import changed; the module's code ran earlier."""
        values: dict[str, Any] = vars(module)
        for name in _SET_BY_IMPORTS:
            values.pop(name, None)
        values.update(self._attributes)
        self._hidden.gave_back(self._name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
