"""Overloads of an operator, from torch's registered schemas.

A recording of memory stores them (``overloads`` in its metadata), so that memory categories need
not import torch, which takes a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from opscope.columns.codes import ArgumentKind
from opscope.errors import MissingDependencyError

TENSOR, TENSOR_LIST = ArgumentKind.TENSOR.value, ArgumentKind.TENSOR_LIST.value
NOTHING = ArgumentKind.NOTHING.value
_BOOL, _INT = ArgumentKind.BOOL.value, ArgumentKind.INT.value
_FLOAT, _COMPLEX = ArgumentKind.FLOAT.value, ArgumentKind.COMPLEX.value
_ANYTHING = frozenset(kind.value for kind in ArgumentKind)

_WRITTEN, _SEPARATOR = "!", "|"


@dataclass(frozen=True)
class SchemaParameter:
    """Parameter of a schema.

    Attributes:
        accepts: letters of the argument kinds that it accepts.
        writes: whether the call may change the argument.
    """

    accepts: frozenset[str]
    writes: bool

    @property
    def is_optional_tensors(self) -> bool:
        """Whether the type is ``Tensor?[]``."""
        return self.accepts == frozenset((NOTHING, TENSOR_LIST))


@dataclass(frozen=True)
class Overload:
    """One schema.

    Attributes:
        name: such as ``out``; empty for the first.
    """

    name: str
    parameters: tuple[SchemaParameter, ...]

    def fits(self, kinds: str) -> bool:
        """Whether arguments of these kinds, a letter each, fit the schema."""
        return len(kinds) == len(self.parameters) and all(
            kind in parameter.accepts
            for kind, parameter in zip(kinds, self.parameters, strict=True)
        )

    def as_text(self) -> str:
        """Text form: name, then the letters of each parameter, as in ``out|T|bif|T!``."""
        letters = ("".join(sorted(p.accepts)) + _WRITTEN * p.writes for p in self.parameters)
        return _SEPARATOR.join((self.name, *letters))

    @classmethod
    def from_text(cls, text: str) -> Overload:
        """Parse the text of :meth:`as_text`."""
        name, *letters = text.split(_SEPARATOR)
        return cls(
            name,
            tuple(
                SchemaParameter(frozenset(p.rstrip(_WRITTEN)), p.endswith(_WRITTEN))
                for p in letters
            ),
        )


def described(names: Iterable[str]) -> dict[str, list[str]]:
    """Overloads of the operators among ``names``, as in a trace's metadata."""
    texts = {name: [overload.as_text() for overload in overloads_of(name)] for name in names}
    return {name: overloads for name, overloads in texts.items() if overloads}


def kept(metadata: Mapping[str, Any]) -> dict[str, tuple[Overload, ...]]:
    """Overloads in a recording's metadata; empty without any."""
    return {
        name: tuple(map(Overload.from_text, overloads))
        for name, overloads in metadata.get("overloads", {}).items()
    }


_overloads_by_name: dict[str, tuple[Overload, ...]] = {}


def overloads_of(name: str) -> tuple[Overload, ...]:
    """Overloads of ``name`` known to this process; the first look-up takes 0.1 ms.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    overloads = _overloads_by_name.get(name)
    if overloads is None:
        overloads = tuple(_look_up(name))
        if overloads:  # it may be registered later
            _overloads_by_name[name] = overloads
    return overloads


def _look_up(name: str) -> Iterator[Overload]:
    try:
        overloads = registered_overloads(name)
    except ImportError as error:
        raise MissingDependencyError(
            "Memory categories need torch's operator schemas, but torch is not installed here. "
            "Install it with: pip install torch"
        ) from error
    for overload in overloads:
        schema = registered_schema(name, overload)
        yield Overload(overload, tuple(_argument(argument) for argument in schema.arguments))


def _argument(argument: Any) -> SchemaParameter:
    accepts = _accepted(argument.type)
    writes = bool(argument.alias_info is not None and argument.alias_info.is_write)
    return SchemaParameter(accepts, writes)


def _accepted(kind: Any) -> frozenset[str]:
    """Letters of the argument kinds that a schema's type accepts."""
    import torch

    if isinstance(kind, torch._C.OptionalType):
        inner = kind.getElementType()
        return _accepted(inner) | {NOTHING}
    if isinstance(kind, torch._C.AnyType):
        return _ANYTHING
    if kind.isSubtypeOf(torch._C.ListType.ofTensors()):
        return frozenset(TENSOR_LIST)
    for schema_type, accepted in _plain_types():
        if isinstance(kind, schema_type):
            return accepted
    if str(kind) == "List[Optional[Tensor]]":
        return frozenset((NOTHING, TENSOR_LIST))
    return frozenset(NOTHING)  # a type that is not recorded


@cache
def _plain_types() -> tuple[tuple[Any, frozenset[str]], ...]:
    import torch

    return (
        (torch._C.TensorType, frozenset(TENSOR)),
        (torch._C.NoneType, frozenset(NOTHING)),
        (torch._C.BoolType, frozenset(_BOOL)),
        (torch._C.IntType, frozenset((_BOOL, _INT))),  # a bool is an int in Python
        (torch._C.FloatType, frozenset(_FLOAT)),
        (torch._C.ComplexType, frozenset(_COMPLEX)),
        (torch._C.NumberType, frozenset((_BOOL, _INT, _FLOAT, _COMPLEX))),
    )


_NAME = re.compile(r"\w+::\w+")
_registered_names: dict[str, tuple[str, ...]] = {}


def registered_overloads(name: str) -> tuple[str, ...]:
    """Names of an operator's overloads, including ``""``; empty for other names.

    torch's dispatcher has them in tables that are read without a lock. TorchScript's registry has a
    lock that stays locked in a forked child if a thread of the parent was reading at the fork.

    Overloads for tensors precede those for numbers, because some tensors fit the latter, too.
    """
    if name not in _registered_names and _NAME.fullmatch(name) is not None:
        _list_operators()  # it may be new
    return _registered_names.get(name, ())


def registered_schema(name: str, overload: str) -> Any:
    """torch's schema of a registered operator."""
    import torch

    return torch._C._dispatch_find_schema_or_throw(name, overload).schema()


def _list_operators() -> None:
    import torch

    overloads_by_name: dict[str, list[str]] = {}
    for full_name in torch._C._dispatch_get_all_op_names():
        name, _, overload = full_name.partition(".")
        overloads_by_name.setdefault(name, []).append(overload)
    for name, overloads in overloads_by_name.items():
        _registered_names[name] = tuple(sorted(overloads, key=_order))


def _order(overload: str) -> tuple[bool, str]:
    return "Scalar" in overload, overload
