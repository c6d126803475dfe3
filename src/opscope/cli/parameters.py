"""What a command takes, read off its signature: the words for its help, and how to read its values.

A command is a function. What the command line gives it are its parameters, each annotated with an
:class:`Argument` or an :class:`Option`; the parameter's type says what a value may be.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Union, get_args, get_origin

from opscope.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Argument:
    """A word that is told by its place.

    Attributes:
        metavar: what stands for it in the help.
        help: what it is.
        several: a list that is all such words, with options between them; a list that is not is
            all words after the first, whatever they are.
    """

    metavar: str
    help: str
    several: bool = False


@dataclass(frozen=True, kw_only=True)
class Option:
    """A word that begins with a dash, with a value after it unless the parameter is a bool.

    Attributes:
        help: what it does.
        names: all its spellings; by default ``--`` and the parameter's name.
        metavar: what stands for the value in the help; by default what may be chosen from.
        default: the default in words, where the value itself does not say it.
        minimum: the least number that is allowed.
        heading: of the help, under which it stands.
        several: a list that is all words up to the next option.
    """

    help: str
    names: tuple[str, ...] = ()
    metavar: str = ""
    default: str = ""
    minimum: int | None = None
    heading: str = "Options"
    several: bool = False


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a command.

    Attributes:
        name: of the function's parameter.
        declared: its words.
        kind: ``bool``, ``int``, ``str``, ``Path`` or an enumeration of strings.
        default: what the function has where the command line gives nothing.
        is_required: it has none.
        takes_rest: it is the list of all words that are left.
        takes_several: it is a list of words, which end where an option begins.
    """

    name: str
    declared: Argument | Option
    kind: type
    default: Any
    is_required: bool
    takes_rest: bool
    takes_several: bool

    @property
    def names(self) -> tuple[str, ...]:
        """An option's spellings; what switches it off is not among them."""
        declared = self.declared
        if isinstance(declared, Argument):
            return ()
        return declared.names or (f"--{self.name.replace('_', '-')}",)

    @property
    def label(self) -> str:
        """What messages call it."""
        return self.names[0] if self.names else self.metavar

    @property
    def off(self) -> str:
        """What switches a flag off whose default is neither on nor off; empty for all others."""
        can_be_either = self.is_flag and self.default is None
        return self.names[0].replace("--", "--no-", 1) if can_be_either else ""

    @property
    def is_flag(self) -> bool:
        """An option without a value."""
        return self.kind is bool

    @property
    def choices(self) -> tuple[str, ...]:
        """All values, where there are few."""
        return tuple(one.value for one in self.kind) if issubclass(self.kind, Enum) else ()

    @property
    def metavar(self) -> str:
        """What stands for the value in the help."""
        return self.declared.metavar or "|".join(self.choices) or self.name.upper()

    def read(self, text: str) -> Any:
        """The value that ``text`` means.

        Raises:
            UsageError: none.
        """
        if self.kind is int:
            return self._read_number(text)
        try:
            return self.kind(text)
        except ValueError:
            known = ", ".join(self.choices)
            raise UsageError(f"{self.label} {text!r} is not one of {known}.") from None

    def _read_number(self, text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise UsageError(f"{self.label} takes a whole number, not {text!r}.") from None
        least = self.declared.minimum if isinstance(self.declared, Option) else None
        if least is not None and number < least:
            raise UsageError(f"{self.label} {number} is less than {least}.")
        return number


def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The parameters of a command, in the order of its signature."""
    signature = inspect.signature(function, eval_str=True)
    return tuple(_parameter(parameter) for parameter in signature.parameters.values())


def _parameter(parameter: inspect.Parameter) -> Parameter:
    kind, *about = get_args(parameter.annotation)
    kind = _without_none(kind)
    default = parameter.default
    declared = next(one for one in about if isinstance(one, Argument | Option))
    is_list = get_origin(kind) is list
    return Parameter(
        name=parameter.name,
        declared=declared,
        kind=get_args(kind)[0] if is_list else kind,
        default=None if default is inspect.Parameter.empty else default,
        is_required=default is inspect.Parameter.empty,
        takes_rest=is_list and not declared.several,
        takes_several=declared.several,
    )


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        return next(one for one in get_args(kind) if one is not types.NoneType)
    return kind
