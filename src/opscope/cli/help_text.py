"""The text that ``--help`` prints: plain, as wide as the terminal, and with no value ever cut."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from opscope.cli.command import HELP, Command, spelled
from opscope.cli.parameters import Option, Parameter

_WIDEST = 100
_FURTHEST = 24
"""Where explanations begin at most; after names that are longer they have lines of their own."""

_BULLET = "- "


def help_of_all(summaries: Mapping[str, str], options: Iterable[tuple[str, str]]) -> str:
    """What ``opscope --help`` prints.

    Args:
        summaries: one line about each command, by its name.
        options: those of opscope itself, with what they do.
    """
    blocks = [
        "Record what a PyTorch program does, and see where its time went.",
        f"{_heading('Usage:')} opscope COMMAND [OPTIONS] ...",
        _table("Commands", summaries.items()),
        _table("Options", options),
        "Start with `opscope run train.py`, then look at what it recorded with `opscope summary`.\n"
        "`opscope COMMAND --help` says more about a command.",
    ]
    return "\n\n".join(blocks) + "\n"


def help_of(command: Command) -> str:
    """What ``opscope COMMAND --help`` prints."""
    paragraphs = command.help.split("\n\n")
    used = "\n".join(_wrapped(usage(command), "Usage: ", later="       "))
    blocks = [_filled(paragraphs[0]), used.replace("Usage:", _heading("Usage:"), 1)]
    blocks += map(_filled, paragraphs[1:])
    if command.arguments:
        blocks.append(_table("Arguments", ((a.metavar, said_of(a)) for a in command.arguments)))
    for heading, options in _by_heading(command).items():
        rows = [(spelled(option), said_of(option)) for option in options]
        rows += [(", ".join(HELP), "Print this help.")] if heading == "Options" else []
        blocks.append(_table(heading, rows))
    return "\n\n".join(blocks) + "\n"


def usage(command: Command) -> str:
    """How to write it: ``opscope summary [OPTIONS] [TRACE]``."""
    words = [a.metavar if a.is_required else f"[{a.metavar}]" for a in command.arguments]
    return " ".join(["opscope", command.name, "[OPTIONS]", *words])


def said_of(parameter: Parameter) -> str:
    """Its explanation, with the default where there is one worth saying."""
    declared = parameter.declared
    default = declared.default if isinstance(declared, Option) else ""
    if not default and not parameter.is_flag and parameter.default not in (None, ""):
        default = str(getattr(parameter.default, "value", parameter.default))
    return f"{declared.help} [default: {default}]" if default else declared.help


def _by_heading(command: Command) -> dict[str, list[Parameter]]:
    """Options by heading, in the order of the signature; those of no other come first."""
    found: dict[str, list[Parameter]] = {"Options": []}
    for option in command.options:
        if isinstance(option.declared, Option):
            found.setdefault(option.declared.heading, []).append(option)
    return found


def _table(heading: str, rows: Iterable[tuple[str, str]]) -> str:
    rows = list(rows)
    fitting = [len(left) + 4 for left, _ in rows if len(left) + 4 <= _FURTHEST]
    column = max(fitting, default=_FURTHEST)
    lines = [_heading(f"{heading}:")]
    for left, right in rows:
        lines += _row(left, right, column)
    return "\n".join(lines)


def _row(left: str, right: str, column: int) -> Iterator[str]:
    beside = len(left) + 4 <= column
    explained = _wrapped(right, " " * column)
    first = explained[0][column:] if beside and explained else ""
    yield f"  {left:<{column - 2}}{first}".rstrip()
    yield from explained[1:] if beside else explained


def _filled(paragraph: str) -> str:
    """A paragraph of a docstring as lines; a list keeps its items apart, an example its lines."""
    if paragraph.startswith("    "):
        return paragraph
    if not paragraph.startswith(_BULLET):
        return "\n".join(_wrapped(" ".join(paragraph.split())))
    items = re.split(r"^- ", paragraph, flags=re.MULTILINE)[1:]
    return "\n".join(
        "\n".join(_wrapped(f"- {' '.join(item.split())}", later="  ")) for item in items
    )


def _wrapped(text: str, first: str = "", later: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        min(shutil.get_terminal_size().columns, _WIDEST) - 1,
        initial_indent=first,
        subsequent_indent=first if later is None else later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _heading(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if sys.stdout is not None and sys.stdout.isatty() else text
