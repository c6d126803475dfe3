"""The ``opscope`` command: its list of commands, and how errors become exit codes.

Nothing is imported before it is needed: `opscope --help` and a mistyped word should be answered at
once, and what a command does not use should not make it wait.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import opscope
from opscope.base.memory_limit import memory_for
from opscope.base.notice import notice
from opscope.cli.parser import Parser
from opscope.errors import OpscopeError, not_installed

COMMANDS = {
    "run": "Run a program and record what torch does in it, then print where the time went.",
    "attach": "List the processes that opscope can reach, or record a running process.",
    "top": "Show what a running process does: operators, modules, memory, step time, overhead.",
    "summary": "Show where the time went: operators, modules, memory, devices, compiled code.",
    "why": "Show why a step takes as long as it does: each cause, and what to change.",
    "memory": "Show what filled the memory at its peak: categories, modules, operators, functions.",
    "ranks": "Compare the ranks of a job: which rank the others wait for, why, and where.",
    "diff": "Compare two versions of a program: time, calls, memory, and where work moved.",
    "report": "Write an HTML page that shows a trace: timeline, operators, modules, memory, steps.",
    "view": "Show a trace of any length in the browser.",
    "export": "Convert a trace to another format, or run its operators again.",
    "sql": "Run an SQL query on a trace.",
    "mcp": "Answer agents' questions about traces, over the Model Context Protocol.",
    "doctor": (
        "Check what opscope can record here; build the bridge, recover a trace, print shell "
        "completions."
    ),
}
"""In the order of ``opscope --help``, each with the first line of its module's docstring. A module
declares its options with ``options(parser)`` and does what they say with ``main(asked)``."""

_BROUGHT = ("rich", "pyarrow", "duckdb", "shtab")
"""What commands need beside NumPy. Recording from a program does not, so they may be missing."""

_ABOUT = """Record what a PyTorch program does, and show where its time went.

Start with `opscope run train.py`, then look at the recording with `opscope why`."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line in ``arguments`` (by default the process's own), and exit.

    Raises:
        SystemExit: 0; 2 for a usage error; otherwise the error's exit code. ``opscope run`` ends
            as the program it ran.
    """
    outcome = _outcome(sys.argv[1:] if arguments is None else arguments)
    if callable(outcome):
        # The rest runs here, without opscope frames on the stack: a program that
        # `opscope run` runs should find it nearly as deep as Python's own.
        outcome()
    elif outcome:
        sys.exit(outcome)


def parser_of(name: str, parser: Parser | None = None) -> Parser:
    """The parser of a command, with all of its options."""
    module, parser = _module(name), parser or Parser(f"opscope {name}")
    parser.description = inspect.getdoc(module)
    module.options(parser)
    if parser.usage is None:
        words = [
            f"[{one.metavar}]" if one.nargs == "?" else str(one.metavar)
            for one in parser._get_positional_actions()
        ]
        parser.usage = " ".join(("%(prog)s", "[OPTIONS]", *words))
    return parser


def parser_of_all() -> Parser:
    """Parser of the whole command line, with every command's options."""
    parser, commands = _parser()
    for name, command in commands.items():
        parser_of(name, command)
    return parser


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"opscope.cli.{name}")


def _outcome(words: Sequence[str]) -> Any:
    """An exit code, or what is left to do."""
    try:
        outcome = _do(words)
        if not callable(outcome) and sys.stdout is not None:
            sys.stdout.flush()  # while what goes wrong can still be said
    except OpscopeError as error:
        return _failed(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _BROUGHT:
            raise
        missing = not_installed(package, f"`opscope {words[0]}`")
        notice(str(missing))  # messages take rich
        return missing.exit_code
    except BrokenPipeError:  # the reader has closed the pipe
        _give_up_output()
        return 1
    except OSError as error:
        reason = error.strerror or error
        code = _failed(f"The output cannot be written: {reason}. Redirect it to another file.", 1)
        _give_up_output()
        return code
    except KeyboardInterrupt:
        return 130
    return outcome


def _do(words: Sequence[str]) -> Any:
    name, *rest = words or ("--help",)
    if name != "run":
        _listen_not()
    if name not in COMMANDS:
        return _parser()[0].parse_args(words or ["--help"])
    with memory_for("this command"):
        module, parser = _module(name), parser_of(name)
        if name == "run":
            return module.main(module.parsed(parser, rest))
        return module.main(parser.parse_intermixed_args(rest))


def _parser() -> tuple[Parser, dict[str, Parser]]:
    """Parser of ``opscope`` itself. Its commands have no options yet, since their modules are not
    imported."""
    parser = Parser("opscope", description=_ABOUT, usage="%(prog)s COMMAND [OPTIONS] ...")
    parser.add_argument("--version", action="version", version=f"opscope {opscope.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    return parser, {name: commands.add_parser(name, help=about) for name, about in COMMANDS.items()}


def _listen_not() -> None:
    """With OPSCOPE_CONTROL=1 in the shell, what is to be reached are programs, and not this."""
    server = sys.modules.get("opscope.live.control.server")
    if server is not None:
        server.stop_listening()


def _failed(what: str, code: int) -> int:
    try:
        from opscope.cli.views.console import Messages
    except ModuleNotFoundError:  # messages take rich
        notice(what)
    else:
        Messages().fail(what)
    return code


def _give_up_output() -> None:
    """Keep the interpreter from flushing the closed pipe once more when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
