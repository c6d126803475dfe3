"""The documentation's page about the command line: the help of every command."""

from __future__ import annotations

from opscope.cli.application import COMMANDS, parser_of

_HEAD = """# Command line

Results are printed to standard output, messages to standard error. Exit codes: 0; 2 for an invalid
command; 1 for any other failure. `opscope run` has the exit code of the program.
[Error messages](../errors.md) explains the messages.

`TRACE` is a folder that opscope wrote, or a Chrome trace of torch.profiler (`.json`, `.json.gz`).
Without `TRACE`, a command reads the newest trace in the current folder.
"""


def command_line() -> str:
    """The whole page."""
    return _HEAD + "".join(map(_section, COMMANDS))


def _section(name: str) -> str:
    parser = parser_of(name)
    parser.common = frozenset()  # all options
    return f"\n## opscope {name}\n\n```text\n{parser.format_help()}```\n"
