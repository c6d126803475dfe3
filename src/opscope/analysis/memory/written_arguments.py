"""Which arguments an operator may change, by the schemas torch has registered under its name.

A recording says what an operator was called and what kinds of arguments it had, not which overload
ran. So every overload that fits the arguments counts: one is enough to call an argument written.
Schemas are those of the torch in this process, custom operators included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from opscope.errors import MissingDependencyError
from opscope.trace.codes import ArgumentAccess, ArgumentKind

Access = ArgumentAccess

TENSOR, TENSOR_LIST = ArgumentKind.TENSOR.value, ArgumentKind.TENSOR_LIST.value
NOTHING = ArgumentKind.NOTHING.value
_BOOL, _INT = ArgumentKind.BOOL.value, ArgumentKind.INT.value
_FLOAT, _COMPLEX = ArgumentKind.FLOAT.value, ArgumentKind.COMPLEX.value
_ANYTHING = frozenset(kind.value for kind in ArgumentKind)


@dataclass(frozen=True)
class Signature:
    """What an operator's schemas say of one way to call it.

    Attributes:
        overloads: names of the overloads that fit; empty if none does.
        access: of every argument.
    """

    overloads: tuple[str, ...]
    access: tuple[Access, ...]


@dataclass(frozen=True)
class _Argument:
    accepts: frozenset[str]  # kinds of arguments, as letters
    writes: bool
    optional_tensors: bool  # Tensor?[]


@dataclass(frozen=True)
class _Overload:
    name: str
    arguments: tuple[_Argument, ...]

    def fits(self, kinds: str) -> bool:
        return len(kinds) == len(self.arguments) and all(
            kind in argument.accepts for kind, argument in zip(kinds, self.arguments, strict=True)
        )


def match_signature(name: str, kinds: str) -> Signature:
    """What is known of operator ``name`` called with arguments of ``kinds``.

    Args:
        name: as recorded, such as ``aten::add_``.
        kinds: a letter per argument: T tensor, L list of tensors, b, i, f, c numbers, N any other.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    fitting = [overload for overload in _overloads(name) if overload.fits(kinds)]
    for position in (p for p, kind in enumerate(kinds) if kind == TENSOR_LIST):
        # Between Tensor?[] and Tensor[], as for aten::index, the dispatcher means the former; the
        # latter is there for TorchScript.
        optional = [o for o in fitting if o.arguments[position].optional_tensors]
        fitting = optional or fitting
    access = []
    for position, kind in enumerate(kinds):
        arguments = [overload.arguments[position] for overload in fitting]
        access.append(_access(kind, arguments))
    return Signature(tuple(overload.name for overload in fitting), tuple(access))


def takes_optional_tensors(name: str, position: int) -> bool:
    """Whether that argument of ``name`` is a list of optional tensors in some overload.

    torch's profiler does not look into such lists.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    return any(
        position < len(overload.arguments) and overload.arguments[position].optional_tensors
        for overload in _overloads(name)
    )


def _access(kind: str, arguments: list[_Argument]) -> Access:
    if kind not in (TENSOR, TENSOR_LIST):
        return Access.NO_TENSOR
    if not arguments:
        return Access.UNCLEAR
    if kind == TENSOR_LIST and arguments[0].optional_tensors:
        return Access.NO_TENSOR
    return Access.WRITES if any(argument.writes for argument in arguments) else Access.READS


_known: dict[str, tuple[_Overload, ...]] = {}


def _overloads(name: str) -> tuple[_Overload, ...]:
    """The overloads of ``name``; looking them up takes torch a tenth of a millisecond."""
    overloads = _known.get(name)
    if overloads is None:
        overloads = tuple(_look_up(name))
        if overloads:  # one that is not known yet may be registered later
            _known[name] = overloads
    return overloads


def _look_up(name: str) -> Iterator[_Overload]:
    if "::" not in name:  # torch refuses such names; most annotations have one
        return
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            "Memory categories are worked out with the operator schemas that torch knows, and "
            "torch is not installed here. Install it with: pip install torch"
        ) from error
    try:
        schemas = torch._C._jit_get_schemas_for_operator(name)
    except RuntimeError:  # not a name an operator can have
        return
    for schema in schemas:
        arguments = tuple(_argument(argument) for argument in schema.arguments)
        yield _Overload(schema.overload_name, arguments)


def _argument(argument: Any) -> _Argument:
    accepts = _accepted(argument.type)
    writes = bool(argument.alias_info is not None and argument.alias_info.is_write)
    return _Argument(accepts, writes, accepts == frozenset((NOTHING, TENSOR_LIST)))


def _accepted(kind: Any) -> frozenset[str]:
    """Kinds of arguments that a parameter of a schema may have been given."""
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
    return frozenset(NOTHING)  # of a type that is not recorded


@cache
def _plain_types() -> tuple[tuple[Any, frozenset[str]], ...]:
    import torch

    return (
        (torch._C.TensorType, frozenset(TENSOR)),
        (torch._C.NoneType, frozenset(NOTHING)),
        (torch._C.BoolType, frozenset(_BOOL)),
        (torch._C.IntType, frozenset((_BOOL, _INT))),  # as Python's isinstance() has it
        (torch._C.FloatType, frozenset(_FLOAT)),
        (torch._C.ComplexType, frozenset(_COMPLEX)),
        (torch._C.NumberType, frozenset((_BOOL, _INT, _FLOAT, _COMPLEX))),
    )
