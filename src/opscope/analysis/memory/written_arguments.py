"""Which arguments an operator may change, by the schemas torch has registered under its name.

A recording says what an operator was called and what kinds of arguments it had, not which overload
ran. So every overload that fits the arguments counts: one is enough to call an argument written.
Schemas are those that the recording kept, else those of the torch in this process; custom operators
are among both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opscope.columns.codes import ArgumentAccess
from opscope.columns.overloads import TENSOR, TENSOR_LIST, Overload, SchemaParameter, overloads_of

Access = ArgumentAccess


@dataclass(frozen=True)
class Signature:
    """What an operator's schemas say of one way to call it.

    Attributes:
        overloads: names of the overloads that fit; empty if none does.
        access: of every argument.
    """

    overloads: tuple[str, ...]
    access: tuple[Access, ...]


def match_signature(
    name: str, kinds: str, kept: Mapping[str, tuple[Overload, ...]] | None = None
) -> Signature:
    """What is known of operator ``name`` called with arguments of ``kinds``.

    Args:
        name: as recorded, such as ``aten::add_``.
        kinds: a letter per argument: T tensor, L list of tensors, b, i, f, c numbers, N any other.
        kept: what the recording says of its operators; None or empty to ask torch.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    known = kept.get(name, ()) if kept else overloads_of(name)
    fitting = [overload for overload in known if overload.fits(kinds)]
    for position in (p for p, kind in enumerate(kinds) if kind == TENSOR_LIST):
        # Between Tensor?[] and Tensor[], as for aten::index, the dispatcher means the former; the
        # latter is there for TorchScript.
        optional = [o for o in fitting if o.parameters[position].is_optional_tensors]
        fitting = optional or fitting
    access = []
    for position, kind in enumerate(kinds):
        parameters = [overload.parameters[position] for overload in fitting]
        access.append(_access(kind, parameters))
    return Signature(tuple(overload.name for overload in fitting), tuple(access))


def takes_optional_tensors(name: str, position: int) -> bool:
    """Whether that argument of ``name`` is a list of optional tensors in some overload.

    torch's profiler does not look into such lists.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    return any(
        position < len(overload.parameters) and overload.parameters[position].is_optional_tensors
        for overload in overloads_of(name)
    )


def _access(kind: str, parameters: list[SchemaParameter]) -> Access:
    if kind not in (TENSOR, TENSOR_LIST):
        return Access.NO_TENSOR
    if not parameters:
        return Access.UNCLEAR
    if kind == TENSOR_LIST and parameters[0].is_optional_tensors:
        return Access.NO_TENSOR
    return Access.WRITES if any(parameter.writes for parameter in parameters) else Access.READS
