"""The documentation's page about the command line, made of the commands themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opscope.cli.application import COMMANDS, command_called
from opscope.cli.command import Command, spelled
from opscope.cli.help_text import said_of, usage

_HEAD = """# Command line

What the commands print as results goes to standard output, everything else to standard error. Exit
codes are 0, 2 for a command that cannot be run as given, 1 for any other failure, and for
`opscope run` the program's own. [Error messages](../errors.md) explains what a failure says.

`TRACE` is a folder that opscope wrote, or a file: a Chrome trace of torch.profiler (`.json`,
`.json.gz`). Left out, it is the newest trace in the
current folder.
"""


def command_line() -> str:
    """The whole page."""
    lines = [_HEAD]
    for name in COMMANDS:
        lines.extend(_section(command_called(name)))
    return "\n".join(lines).rstrip() + "\n"


def _section(command: Command) -> Iterator[str]:
    yield f"## opscope {command.name}\n"
    yield f"    {usage(command)}\n"
    yield f"{command.help}\n"
    yield from _table("argument", ((a.metavar, said_of(a)) for a in command.arguments))
    yield from _table("option", ((spelled(option), said_of(option)) for option in command.options))


def _table(heading: str, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    shown = [f"| `{_cell(left)}` | {_cell(right)} |" for left, right in rows]
    if shown:
        yield f"| {heading} | meaning |"
        yield "|---|---|"
        yield from shown
        yield ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
