"""The argument parser of commands: argparse with opscope's errors and help."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from enum import Enum
from typing import Any, NoReturn

from opscope.errors import UsageError

_MOST_WIDTH, _MOST_INDENT = 100, 28
"""Maximum width of a help text, and maximum column where explanations begin."""


class Parser(argparse.ArgumentParser):
    """Raises usage errors; ``--help`` shows only common options, if ``show_only`` names them."""

    def __init__(self, prog: str, **given: Any) -> None:
        super().__init__(prog, formatter_class=_Help, allow_abbrev=False, **given)
        self.common: frozenset[str] = frozenset()  # empty: all options

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message[0].upper()}{message[1:]}. See `{self.prog} --help`.")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Exit after the help text."""
        if sys.stdout is not None:
            sys.stdout.flush()  # here, so that an error is printed
        raise SystemExit(status)

    def format_help(self) -> str:
        """Help text with the common options."""
        options = [action for action in self._actions if action.option_strings]
        hidden = [a for a in options if self.common and not self.common & {*a.option_strings}]
        help_texts = [action.help for action in hidden]
        for action in hidden:
            action.help = argparse.SUPPRESS
        try:
            return super().format_help()
        finally:
            for action, text in zip(hidden, help_texts, strict=True):
                action.help = text

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
    """Keeps paragraphs, lists and examples of the description."""

    def __init__(self, prog: str) -> None:
        width = min(shutil.get_terminal_size().columns, _MOST_WIDTH) - 2
        super().__init__(prog, max_help_position=_MOST_INDENT, width=width)

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
    """Parser for ``type=``: a whole number, at least ``least``."""

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
    """Parser for ``type=``: seconds in this range."""

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
    """Add ``--row-limit``."""
    text = f" [default: {default}]" if default is not None else ""
    parser.add_argument(
        "--row-limit",
        metavar="N",
        type=whole_number(-1),
        default=default,
        help=f"{what}; -1 for all.{text}",
    )


def add_confidential(parser: argparse.ArgumentParser) -> None:
    """Add ``--no-arguments`` and ``--hash-names``."""
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
        help="Also leave out source lines and host names, and replace names of the program's "
        "files, functions, modules, annotations and threads by hashes.",
    )


def example(*lines: str) -> str:
    """Text of the examples at the end of the help."""
    return "\n".join(("examples:\n", *(f"  {line}" for line in lines)))
