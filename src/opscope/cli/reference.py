"""The documentation's page about the command line, made of the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from opscope.cli.application import build_application

_HEAD = """# Command line

What the commands print as results goes to standard output, everything else to standard error. Exit
codes are 0, 2 for a command that cannot be run as given, 1 for any other failure, and for
`opscope run` the program's own. [Error messages](../errors.md) explains what a failure says.

`TRACE` is a folder that opscope wrote, or a file: a Chrome trace of torch.profiler (`.json`,
`.json.gz`), or an execution trace of torch or opscope.
"""


def command_line() -> str:
    """The whole page."""
    group: Any = typer.main.get_command(build_application())
    lines = [_HEAD]
    for name, command in group.commands.items():
        lines.extend(_section(f"opscope {name}", command))
    return "\n".join(lines).rstrip() + "\n"


def _section(name: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=name)
    yield f"## {name}\n"
    yield f"    {' '.join([name, *command.collect_usage_pieces(context)])}\n"
    yield f"{command.help}\n"
    records = [parameter.get_help_record(context) for parameter in command.params]
    for kind, heading in (("argument", "argument"), ("option", "option")):
        shown = [
            record
            for parameter, record in zip(command.params, records, strict=True)
            if parameter.param_type_name == kind and record is not None
        ]
        if shown:
            yield f"| {heading} | meaning |"
            yield "|---|---|"
            yield from (f"| `{_cell(spelled)}` | {_cell(help)} |" for spelled, help in shown)
            yield ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
