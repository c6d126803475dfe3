"""Paths of modules, as in ``named_modules()`` of the outermost module.

A module's name is in its parent. So at the first call of an unknown module, all modules inside it
get paths; the search repeats when the recording ends, because modules may be added. It keeps no
module alive and calls no method of the program.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from opscope.base.daemon_thread import let_others_run
from opscope.columns.names import Names
from opscope.columns.table import Table
from opscope.recording.decoded import Decoded
from opscope.recording.listeners import Listener

_WRAPPERS = {
    ("DataParallel", "module"),
    ("DistributedDataParallel", "module"),
    ("OptimizedModule", "_orig_mod"),
    ("FullyShardedDataParallel", "_fsdp_wrapped_module"),
    ("CheckpointWrapper", "_checkpoint_wrapped_module"),
}
"""Class and attribute: the attribute holds the program's network."""


@dataclass(frozen=True)
class _Place:
    """Path of a module."""

    module: weakref.ref[Any]
    root: int  # address of the outermost module around it; its own if it is the outermost
    path: str  # from there; empty for the outermost, and for the network in a wrapper
    children: _Children  # its children when found: names and addresses


_Children: TypeAlias = tuple[tuple[str, ...], tuple[int, ...]]
_NO_CHILDREN: _Children = ((), ())
_NONE = id(None)
_LOOKED_AT_ONCE = 200  # modules looked at without releasing the GIL: up to 1.5 µs for each
_places: dict[int, _Place] = {}


def meet(module: Any) -> None:
    """Find the paths in a module at its first call in a recording; one look-up if known."""
    place = _places.get(id(module))
    if place is None or place.module() is not module:
        _find_places(module)


def _find_places(root: Any) -> None:
    """Give all modules in ``root`` their paths, except those of another network."""
    new: dict[int, tuple[int, str]] = {}
    found = {id(module): (module, path) for module, path in _inside(root)}
    for address, (module, path) in found.items():
        known = _places.get(address)
        if known is None or known.module() is not module or known.root in found:
            try:
                _places[address] = _Place(weakref.ref(module), id(root), path, _children_of(module))
                new[address] = (id(root), path)
            except TypeError:
                continue  # a module that cannot be referred to weakly has no path
    _note(new)


def _note(places: Mapping[int, tuple[int, str]]) -> None:
    """Write paths to the stream, if one runs, for a recording that does not finish."""
    if places:
        ModulePaths.write_note(_as_list(places))


def _as_list(places: Mapping[int, tuple[int, str]]) -> list[tuple[int, int, str]]:
    return [(address, root, path) for address, (root, path) in places.items()]


def _known() -> dict[int, tuple[int, str]]:
    return {address: (place.root, place.path) for address, place in list(_places.items())}


def _children_of(module: Any) -> _Children:
    children = getattr(module, "__dict__", {}).get("_modules")
    if not children or not isinstance(children, dict):
        return _NO_CHILDREN
    names = tuple(children)
    return names, tuple(map(id, map(children.get, names)))


def _search_again() -> None:
    """Find modules that were added, exchanged or renamed.

    A network has thousands of modules, and the flight recorder checks them every second. So other
    threads run in between, and only changed modules are searched again.
    """
    changed = []
    for count, (address, place) in enumerate(list(_places.items())):
        if _has_changed(place):
            changed.append(address)
        if count % _LOOKED_AT_ONCE == _LOOKED_AT_ONCE - 1:
            let_others_run()
    _find_in([place.root for place in map(_places.get, changed) if place is not None])
    left = [place for place in map(_places.get, changed) if place is not None]
    if any(map(_has_changed, left)):  # their network is gone, or they moved to another
        _find_in(list(_places))


def _find_in(addresses: Iterable[int]) -> None:
    """Search the outermost modules of ``addresses``, in order: a shared module gets one path."""
    for address in dict.fromkeys(addresses):
        place = _places.get(address)
        root = place.module() if place is not None and place.root == address else None
        if root is not None:
            _find_places(root)


def _has_changed(place: _Place) -> bool:
    module = place.module()
    if module is None:
        return False
    children = _children_of(module)
    return children != place.children or any(
        _is_new(address, place.root) for address in children[1] if address != _NONE
    )


def _is_new(address: int, root: int) -> bool:
    """Whether a module was in no network yet: its address was reused, or it seemed outermost."""
    known = _places.get(address)
    return known is None or known.module() is None or known.root == address != root


def _inside(root: Any) -> Iterator[tuple[Any, str]]:
    """Modules with their paths, as ``named_modules()``: outer before inner, each once."""
    seen: set[int] = set()
    pending = [(root, "")]
    while pending:
        module, path = pending.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield module, path
        children = getattr(module, "__dict__", {}).get("_modules")
        if isinstance(children, dict):
            name_of = type(module).__name__
            pending += [
                (child, path if (name_of, name) in _WRAPPERS else f"{path}.{name}".lstrip("."))
                for name, child in reversed(list(children.items()))
                if child is not None
            ]


class ModulePaths(Listener):
    """The paths of the modules of one window."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[int, str]] = {}

    def begin(self) -> None:
        """Forget modules that no longer exist."""
        for address, place in list(_places.items()):
            if place.module() is None:
                _places.pop(address, None)
        _note(_known())

    def before_end(self) -> None:
        """Search again, and keep the paths known now."""
        _search_again()
        self._found = _known()

    def added_to(self, decoded: Decoded) -> Decoded:
        """Add the column ``path`` of ``modules``."""
        table = decoded.tables["modules"]
        paths = _paths_of(table, decoded.names, self._found)
        if not any(paths):
            return decoded
        known = [path for path in paths if path]
        numbers = iter(range(len(decoded.names), len(decoded.names) + len(known)))
        column = np.array([next(numbers) if path else -1 for path in paths], dtype=np.int32)
        changed = decoded.with_tables(modules=table.replaced({"path": column}))
        return replace(changed, names=decoded.names.followed_by(Names.from_strings(known)))

    def known(self, whole: bool = True) -> list[tuple[int, int, str]]:
        """Address, address of the outermost module, and path of each module."""
        return _as_list(self._found)

    def learn(self, known: Any) -> None:
        """Add the paths that :meth:`known` returned."""
        self._found |= {int(address): (int(root), str(path)) for address, root, path in known}


def _paths_of(table: Table, names: Names, found: Mapping[int, tuple[int, str]]) -> list[str]:
    """Path of every row, with the network's name if there are several; empty if unknown."""
    addresses = table["address"].tolist()
    again = {address for address, count in Counter(addresses).items() if count > 1}
    # A reused address does not tell which module had the path.
    places = [(0, "") if one in again else found.get(one, (0, "")) for one in addresses]
    roots = {root for root, path in places if path}
    if len(roots) < 2:
        return [path for _, path in places]
    name_of = {address: names[name] for address, name in zip(addresses, table["name"], strict=True)}
    return [f"{name_of.get(root, 'network')}.{path}" if path else "" for root, path in places]
