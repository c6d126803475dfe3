"""The ``opscope`` command: its list of commands, and how errors become exit codes.

Nothing is imported before it is needed: `opscope --help` and a mistyped word should be answered at
once, and what a command does not use should not make it wait.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import opscope
from opscope.base.memory_limit import memory_for
from opscope.base.notice import notice
from opscope.cli.parameters import Parser, call_with, declare
from opscope.errors import OpscopeError, not_installed

COMMANDS = {
    "run": "Run a program, record what torch does in it, then say where the time went.",
    "ps": "List the processes of this user that opscope can reach while they run.",
    "attach": "Record a process that runs, write a trace, and leave the process as it was.",
    "start": "Begin to record in a process that runs, until `opscope stop` ends it.",
    "stop": "End the recording that `opscope start` began in a process, and write a trace of it.",
    "dump": "Have the flight recorder of a process write what it holds, and print where.",
    "status": "Print as JSON what a process is, and what is recorded in it.",
    "top": "Show live what a process does: operators, modules, memory, step time, own cost.",
    "summary": "Show where the time went: operators, modules, memory, and what to change.",
    "why": "Show why a step takes as long as it does: every cause, and what to change.",
    "findings": "Show why a program is slow: what was found, where, and what a fix would save.",
    "stragglers": "Show which rank of a job the others wait for, how often, why, and where.",
    "collectives": "Show the collectives of a job: how fast they were, and who waited for whom.",
    "job": "Ask something of all processes of a job together.",
    "rollup": "Add up every process of a job, so that questions about it are quick.",
    "diff": "Compare two versions of a program: what is slower, what is more, what only moved.",
    "gpu": "Show how busy devices are, why they are idle, and whose work they do.",
    "roofline": "Show how much of what this machine can do operators reach, and what holds them.",
    "compiled": "Show which lines the time in compiled code is of, and where its graphs break.",
    "memory": "Show what was in use when memory was fullest.",
    "report": "Write a page that shows a trace: timeline, operators, modules, memory, steps.",
    "export": "Write a trace in a format that other tools read.",
    "replay": "Run the operators of a trace again, and compare what they take.",
    "recover": "Write the trace of a recording whose program was killed, or crashed.",
    "sql": "Run an SQL query over a trace.",
    "build": "Compile the part of opscope that is built against the installed torch.",
    "doctor": "Say what is installed, what would be recorded, and why not the rest.",
    "completion": "Print what makes a shell complete opscope's commands and options.",
}
"""In the order of ``opscope --help``, each with the first line of its docstring. A command is the
function of this name in the module of this name."""

_BROUGHT = ("rich", "pyarrow", "duckdb", "shtab")
"""What commands need beside NumPy. Recording from a program does not, so they may be missing."""

_ABOUT = """Record what a PyTorch program does, and see where its time went.

Start with `opscope run train.py`, then look at what it recorded with `opscope summary`."""


def command_called(name: str) -> Callable[..., Any]:
    """The function of one of :data:`COMMANDS`."""
    function: Callable[..., Any] = getattr(importlib.import_module(f"opscope.cli.{name}"), name)
    return function


def parser_of_all() -> Parser:
    """Of the whole command line, with every command's options."""
    parser, commands = _parser()
    for name, command in commands.items():
        declare(command_called(name), command)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line in ``arguments`` (by default the process's own), and exit.

    Raises:
        SystemExit: 0; 2 for a usage error; otherwise the error's exit code. ``opscope run`` ends
            as the program it ran.
    """
    outcome = _outcome(sys.argv[1:] if arguments is None else arguments)
    if callable(outcome):
        # What is left to do runs here, with nothing of ours on the stack: a program that
        # `opscope run` runs should find it nearly as deep as Python's own.
        outcome()
    elif outcome:
        sys.exit(outcome)


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
        code = _failed(f"The output cannot be written: {reason}. Send it somewhere else.", 1)
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
        return call_with(command_called(name), rest, f"opscope {name}")


def _parser() -> tuple[Parser, dict[str, Parser]]:
    """That of opscope itself; its commands' have no options yet, since their modules are not
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
        from opscope.cli.shown.console import Messages
    except ModuleNotFoundError:  # messages take rich
        notice(what)
    else:
        Messages().fail(what)
    return code


def _give_up_output() -> None:
    """Keep the interpreter from flushing the closed pipe once more when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
