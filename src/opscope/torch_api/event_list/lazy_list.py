"""A list whose elements are created on access."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, SupportsIndex, TypeVar, overload

T = TypeVar("T")


class LazyList(list[T]):
    """A list whose elements are created when they are read.

    Operations that need all elements, or change the list, first create all elements. After the
    first change it is an ordinary list, and :attr:`as_made` is False.
    """

    def __init__(self, items: Iterable[T] = ()) -> None:
        super().__init__(items)
        self._make: Callable[[int], T] | None = None
        self.as_made = False

    def fill_lazily(self, length: int, make: Callable[[int], T]) -> None:
        """Fill the list with ``length`` elements; element i is ``make(i)``."""
        # Placeholders, because C code reads the length of a list directly.
        placeholders: list[Any] = [None] * length
        list.extend(self, placeholders)
        self._make = make
        self.as_made = True

    def _complete(self) -> None:
        make, self._make = self._make, None
        if make is not None:
            list.__setitem__(self, slice(None), [make(i) for i in range(len(self))])

    def _complete_to_change(self) -> None:
        self._complete()
        self.as_made = False

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> T: ...

    @overload
    def __getitem__(self, index: slice, /) -> list[T]: ...

    def __getitem__(self, index: Any, /) -> Any:
        if self._make is None:
            return super().__getitem__(index)
        make = self._make
        if isinstance(index, slice):
            return [make(i) for i in range(*index.indices(len(self)))]
        super().__getitem__(index)  # raises what a list raises
        position = index.__index__()
        return make(position if position >= 0 else position + len(self))

    def __iter__(self) -> Iterator[T]:
        position = 0
        while position < len(self):
            yield self[position]
            position += 1

    def __reversed__(self) -> Iterator[T]:
        return (self[i] for i in range(len(self) - 1, -1, -1))

    def __contains__(self, value: object, /) -> bool:
        return any(value is item or value == item for item in self)

    def copy(self) -> list[T]:
        """An ordinary list of the same elements."""
        return list(self)

    def __eq__(self, other: object, /) -> bool:
        self._complete()
        return super().__eq__(_completed(other))

    def __ne__(self, other: object, /) -> bool:
        return not self == other

    __hash__ = None

    def __add__(self, other: Any, /) -> Any:
        return list(self) + list(other)

    def __radd__(self, other: Any, /) -> Any:
        return list(other) + list(self)

    def __mul__(self, times: SupportsIndex, /) -> list[T]:
        return list(self) * times

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return repr(list(self))

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Any:
        # A copy has all elements, and not the function that creates them.
        state = {name: value for name, value in vars(self).items() if name not in _LAZY_STATE}
        return _restore, (type(self), list(self), state)


_READING_METHODS = ("index", "count")
_CHANGING_METHODS = (
    "__setitem__",
    "__delitem__",
    "__iadd__",
    "__imul__",
    "append",
    "extend",
    "insert",
    "pop",
    "remove",
    "clear",
    "reverse",
    "sort",
)
_LAZY_STATE = ("_make", "as_made")


def _after(prepare: Callable[[LazyList[Any]], None], name: str) -> Callable[..., Any]:
    """The method ``name`` of ``list``, called after ``prepare``."""
    method = getattr(list, name)

    @wraps(method)
    def prepared(self: LazyList[Any], *args: Any, **kwargs: Any) -> Any:
        prepare(self)
        return method(self, *args, **kwargs)

    return prepared


for _name in _READING_METHODS:
    setattr(LazyList, _name, _after(LazyList._complete, _name))
for _name in _CHANGING_METHODS:
    setattr(LazyList, _name, _after(LazyList._complete_to_change, _name))


def _restore(kind: type[LazyList[T]], items: list[T], state: dict[str, Any]) -> LazyList[T]:
    restored = kind(items)
    vars(restored).update(state)
    return restored


def _completed(other: object) -> object:
    if isinstance(other, LazyList):
        other._complete()
    return other
