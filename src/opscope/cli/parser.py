"""The argument parser of commands: argparse with opscope's errors."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from enum import Enum
from typing import Any, NoReturn

from opscope.errors import UsageError

_WIDEST, _FURTHEST = 100, 28
"""Columns of a help text, and where explanations begin at most."""


class Parser(argparse.ArgumentParser):
    """Raises its errors; its help may leave out options that are rarely needed.

    Attributes:
        common: the options that ``--help`` shows; empty for all. ``--help-all`` shows the others.
    """

    def __init__(self, prog: str, **given: Any) -> None:
        super().__init__(prog, formatter_class=_Help, allow_abbrev=False, **given)
        self.common: frozenset[str] = frozenset()

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message[0].upper()}{message[1:]}. See `{self.prog} --help`.")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Leave after help, while it can still be said that it cannot be written."""
        if sys.stdout is not None:
            sys.stdout.flush()
        raise SystemExit(status)

    def format_help(self) -> str:
        """The help with the common options."""
        options = [one for one in self._actions if one.option_strings]
        rare = [one for one in options if self.common and not self.common & {*one.option_strings}]
        help_texts = [one.help for one in rare]
        for one in rare:
            one.help = argparse.SUPPRESS
        try:
            return super().format_help()
        finally:
            for one, text in zip(rare, help_texts, strict=True):
                one.help = text

    def show_only(self, *common: str) -> None:
        """Let ``--help`` show these options, and ``--help-all`` all."""
        self.add_argument("--help-all", action=_HelpOfAll, nargs=0, help="Show all options.")
        self.common = frozenset((*common, "--help", "--help-all"))


class _HelpOfAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        assert isinstance(parser, Parser)
        parser.common = frozenset()
        parser.print_help()
        parser.exit()


class _Help(argparse.HelpFormatter):
    """Keeps paragraphs apart, and lists and examples as they are."""

    def __init__(self, prog: str) -> None:
        width = min(shutil.get_terminal_size().columns, _WIDEST) - 2
        super().__init__(prog, max_help_position=_FURTHEST, width=width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n\n".join(
            part if part.startswith((" ", "- ")) else fill(part, width, indent)
            for part in text.split("\n\n")
        )


def one_of(kind: type[Enum]) -> dict[str, Any]:
    """Arguments of ``add_argument`` for one value of an enumeration."""
    values = [one.value for one in kind]

    def read(text: str) -> Enum:
        if text not in values:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(values)}")
        return kind(text)

    return {"type": read, "choices": tuple(kind), "metavar": "|".join(values)}


def whole_number(least: int | None = None) -> Callable[[str], int]:
    """Parser for ``type=`` of a whole number that is at least ``least``."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if least is not None and value < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return value

    return read


def seconds(least: float, most: float) -> Callable[[str], float]:
    """Parser for ``type=`` of a time in this range."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not between {least:g} and {most:g} seconds"
            )
        return value

    return read


def add_row_limit(parser: argparse._ActionsContainer, default: int | None, what: str) -> None:
    """Declare ``--row-limit``."""
    text = f" [default: {default}]" if default is not None else ""
    parser.add_argument(
        "--row-limit",
        metavar="N",
        type=whole_number(-1),
        default=default,
        help=f"{what}; -1 for all.{text}",
    )


def add_confidential(parser: argparse.ArgumentParser) -> None:
    """Declare ``--no-arguments`` and ``--hash-names``."""
    group = parser.add_argument_group("for other people")
    group.add_argument(
        "--no-arguments",
        action="store_true",
        help="Leave out values of arguments, texts of annotations and the command line. Sizes of "
        "tensors stay.",
    )
    group.add_argument(
        "--hash-names",
        action="store_true",
        help="Besides, leave out source lines and host names, and replace names of the program's "
        "files, functions, modules, annotations and threads by hashes.",
    )


def example(*lines: str) -> str:
    """Examples at the end of ``-h``."""
    return "\n".join(("examples:\n", *(f"  {line}" for line in lines)))
