"""Parameters of commands: a command is a function, and its signature says what argparse parses.

Each parameter is annotated with an :class:`Argument` or an :class:`Option`; its type says what a
value may be, its default what the function gets where the command line gives nothing.
"""

from __future__ import annotations

import argparse
import inspect
import shutil
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeAlias, Union, get_args, get_origin

from opscope.errors import UsageError

_WIDEST, _FURTHEST = 100, 28
"""Columns of a help text, and where explanations begin at most."""


@dataclass(frozen=True, kw_only=True)
class Argument:
    """A positional argument; a list takes one or more.

    Attributes:
        metavar: what stands for it in the help.
        help: what it is.
        takes_rest: the list is the first and all that follows, options of others included.
    """

    metavar: str
    help: str
    takes_rest: bool = False

    def add_to(self, parser: argparse.ArgumentParser, parameter: inspect.Parameter) -> None:
        """Declare it to argparse."""
        kind, is_list = _kind_of(parameter)
        declared = _values(kind) | {"metavar": self.metavar, "help": _escaped(self.help)}
        if is_list:
            declared["nargs"] = argparse.PARSER if self.takes_rest else "+"
        elif parameter.default is not inspect.Parameter.empty:
            declared |= {"nargs": "?", "default": parameter.default}
        parser.add_argument(parameter.name, **declared)


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option: a flag where the parameter is a bool, which also has --no-NAME where it may be
    None; with one or more values where it is a list.

    Attributes:
        help: what it does.
        names: all its spellings; by default ``--`` and the parameter's name.
        metavar: what stands for the value in the help; by default what may be chosen from.
        default: the default in words, where the value itself does not say it.
        minimum: the least number that is allowed.
        heading: of the help, under which it stands.
    """

    help: str
    names: tuple[str, ...] = ()
    metavar: str = ""
    default: str = ""
    minimum: int | None = None
    heading: str = ""

    def add_to(self, parser: argparse.ArgumentParser, parameter: inspect.Parameter) -> None:
        """Declare it to argparse."""
        kind, is_list = _kind_of(parameter)
        names = self.names or (f"--{parameter.name.replace('_', '-')}",)
        declared: dict[str, Any] = {"dest": parameter.name, "help": self._help(kind, parameter)}
        if kind is bool and parameter.default is None:
            declared["action"] = argparse.BooleanOptionalAction
        elif kind is bool:
            declared["action"] = "store_true"
        else:
            declared |= _values(kind, self.minimum)
            declared["metavar"] = self.metavar or "|".join(_choices(kind)) or None
            declared["required"] = parameter.default is inspect.Parameter.empty
            declared |= {"action": "extend", "nargs": "+"} if is_list else {}
        group_of(parser, self.heading).add_argument(*sorted(names, key=len), **declared)

    def _help(self, kind: type, parameter: inspect.Parameter) -> str:
        """The explanation, with the default where there is one worth saying."""
        default, value = self.default, parameter.default
        if not default and kind is not bool and value not in (None, "", inspect.Parameter.empty):
            default = str(getattr(value, "value", value))
        return _escaped(f"{self.help} [default: {default}]" if default else self.help)


class Parser(argparse.ArgumentParser):
    """Its errors are raised, and so printed as all others are."""

    def __init__(self, prog: str, **given: Any) -> None:
        """Without defaults: what is not given is left to the function's signature."""
        super().__init__(
            prog,
            formatter_class=_Help,
            argument_default=argparse.SUPPRESS,
            allow_abbrev=False,
            **given,
        )

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message[0].upper()}{message[1:]}. See `{self.prog} --help`.")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Leave after help, while it can still be said that it cannot be written."""
        if sys.stdout is not None:
            sys.stdout.flush()
        raise SystemExit(status)


def declare(function: Callable[..., Any], parser: Parser) -> Parser:
    """Give ``parser`` the parameters of a command, and its docstring as description."""
    words = ["%(prog)s", "[OPTIONS]"]
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        declared = get_args(parameter.annotation)[-1]
        declared.add_to(parser, parameter)
        if isinstance(declared, Argument):
            is_required = parameter.default is inspect.Parameter.empty
            words.append(declared.metavar if is_required else f"[{declared.metavar}]")
    parser.description = inspect.getdoc(function)
    parser.usage = " ".join(words)
    return parser


def call_with(function: Callable[..., Any], words: Sequence[str], name: str) -> Any:
    """Run a command with what ``words`` say, and return what it returns.

    Raises:
        UsageError: they make no sense, or the function says so.
        SystemExit: help was asked for, and is printed.
    """
    parser = declare(function, Parser(name))
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    hands_on = any(
        isinstance(declared := get_args(one.annotation)[-1], Argument) and declared.takes_rest
        for one in parameters
    )
    parse = parser.parse_args if hands_on else parser.parse_intermixed_args
    return function(**vars(parse(list(words))))


def group_of(parser: argparse.ArgumentParser, heading: str) -> argparse._ActionsContainer:
    """The group of options with this heading; the parser itself without one."""
    known = {group.title: group for group in parser._action_groups}
    return known.get(heading) or parser.add_argument_group(heading) if heading else parser


class _Help(argparse.HelpFormatter):
    """Keeps the paragraphs of a docstring apart, and its lists and examples as they are."""

    def __init__(self, prog: str) -> None:
        width = min(shutil.get_terminal_size().columns, _WIDEST) - 2
        super().__init__(prog, max_help_position=_FURTHEST, width=width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n\n".join(
            part if part.startswith((" ", "- ")) else fill(part, width, indent)
            for part in text.split("\n\n")
        )


def _kind_of(parameter: inspect.Parameter) -> tuple[Any, bool]:
    """The type of one value, and whether the parameter is a list of such."""
    kind = get_args(parameter.annotation)[0]
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(one for one in get_args(kind) if one is not types.NoneType)
    return (get_args(kind)[0], True) if get_origin(kind) is list else (kind, False)


def _choices(kind: Any) -> tuple[str, ...]:
    return tuple(one.value for one in kind) if issubclass(kind, Enum) else ()


def _values(kind: Any, minimum: int | None = None) -> dict[str, Any]:
    """What argparse has to know about the values of a type."""
    if issubclass(kind, str | Path) and not issubclass(kind, Enum):
        return {"type": kind}

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            choices = ", ".join(_choices(kind))
            wanted = f"one of {choices}" if choices else "a whole number"
            raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}") from None
        if minimum is not None and value < minimum:
            raise argparse.ArgumentTypeError(f"{text} is less than {minimum}")
        return value

    return {"type": read, "choices": tuple(kind)} if issubclass(kind, Enum) else {"type": read}


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


ProcessArgument: TypeAlias = Annotated[
    int, Argument(metavar="PID", help="Number of the process; `opscope ps` lists those there are.")
]
"""The process that some commands ask."""
