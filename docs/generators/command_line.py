"""The documentation's page about the command line: the help of every command."""

from __future__ import annotations

from opscope.cli.application import COMMANDS, parser_of

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
    return _HEAD + "".join(map(_section, COMMANDS))


def _section(name: str) -> str:
    parser = parser_of(name)
    parser.common = frozenset()  # all options
    return f"\n## opscope {name}\n\n```text\n{parser.format_help()}```\n"
