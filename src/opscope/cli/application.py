"""The ``opscope`` command: the list of commands, and the exit codes of errors.

Each command imports only what it needs, so that `opscope --help` and usage errors are fast.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import inspect
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

import opscope
from opscope.base.memory_limit import memory_for
from opscope.cli.parser import Parser
from opscope.cli.session.termination import on_interrupt
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
"""Commands in the order of ``opscope --help``, with the first lines of their modules' docstrings. A
module adds its options in ``options(parser)``, and runs in ``main(args)``."""

_COMMAND_PACKAGES = ("rich", "pyarrow", "duckdb", "shtab")
"""Packages that only commands need, not recording from a program; they may be missing."""

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
        # `opscope run` starts the program here, where the stack has few frames of opscope.
        outcome()
    elif arguments is None and threading.active_count() == 1:
        _leave(outcome or 0)
    elif outcome:
        sys.exit(outcome)


def parser_of(name: str, parser: Parser | None = None) -> Parser:
    """The parser of a command, with all of its options."""
    module, parser = _module(name), parser or Parser(f"opscope {name}")
    parser.description = inspect.getdoc(module)
    module.options(parser)
    if parser.usage is None:
        arguments = [
            f"[{one.metavar}]" if one.nargs == "?" else str(one.metavar)
            for one in parser._get_positional_actions()
        ]
        parser.usage = " ".join(("%(prog)s", "[OPTIONS]", *arguments))
    return parser


def parser_of_all() -> Parser:
    """Parser of the whole command line, with the options of all commands."""
    parser, commands = _main_parser()
    for name, command in commands.items():
        parser_of(name, command)
    return parser


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"opscope.cli.{name}")


def _outcome(words: Sequence[str]) -> Any:
    """Run a command; returns an exit code, or a function that runs the program."""
    try:
        outcome = _run_command(words)
        if not callable(outcome) and sys.stdout is not None:
            sys.stdout.flush()  # here, so that an error is printed
    except OpscopeError as error:
        return _failed(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _COMMAND_PACKAGES:
            raise
        missing = not_installed(package, f"`opscope {words[0]}`")
        return _failed(str(missing), missing.exit_code)
    except BrokenPipeError:  # the reader has closed the pipe
        _discard_output()
        return 1
    except OSError as error:
        reason = error.strerror or error
        code = _failed(f"The output cannot be written: {reason}. Redirect it to another file.", 1)
        _discard_output()
        return code
    except KeyboardInterrupt:
        return 130
    return outcome


def _run_command(words: Sequence[str]) -> Any:
    name, *rest = words or ("--help",)
    if name != "run":
        _stop_listening()
    if name not in COMMANDS:
        return _main_parser()[0].parse_args(words or ["--help"])
    with memory_for("this command"):
        with on_interrupt(signal.SIG_DFL):
            if name != "run":
                _import_numpy()
            module, parser = _module(name), parser_of(name)
        if name == "run":
            return module.main(module.parsed(parser, rest))
        return module.main(parser.parse_intermixed_args(rest))


def _import_numpy() -> None:
    """Import NumPy without the threads of its matrix products.

    Starting them takes 50 ms of CPU time on two CPUs, and no command multiplies large matrices.
    """
    is_chosen = "OPENBLAS_NUM_THREADS" in os.environ
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    importlib.import_module("numpy")
    if not is_chosen:
        del os.environ["OPENBLAS_NUM_THREADS"]  # programs that the command starts have theirs


def _main_parser() -> tuple[Parser, dict[str, Parser]]:
    """Parser of ``opscope``, and those of its commands without options: imports no command."""
    parser = Parser("opscope", description=_ABOUT, usage="%(prog)s COMMAND [OPTIONS] ...")
    parser.add_argument("--version", action="version", version=f"opscope {opscope.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    return parser, {name: commands.add_parser(name, help=about) for name, about in COMMANDS.items()}


def _stop_listening() -> None:
    """Undo OPSCOPE_CONTROL=1 for this process: it is for the user's programs."""
    server = sys.modules.get("opscope.live.control.server")
    if server is not None:
        server.stop_listening()


def _leave(code: int) -> NoReturn:
    """End the process without freeing its objects one by one, which takes 70 ms or more."""
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):  # it is closed
        print(end="", flush=True)
    os._exit(code)


def _failed(text: str, code: int) -> int:
    from opscope.cli.views.console import Messages

    Messages().fail(text)
    return code


def _discard_output() -> None:
    """Redirect standard output to /dev/null: Python's flush at exit would fail again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
