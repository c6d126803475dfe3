"""The ``opscope`` command: its list of commands, and how errors become exit codes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Annotated, Any

import typer

from opscope.cli.build import build
from opscope.cli.console import Messages
from opscope.cli.doctor import doctor
from opscope.cli.export import export
from opscope.cli.findings import findings
from opscope.cli.memory import memory
from opscope.cli.replay import replay
from opscope.cli.report import report
from opscope.cli.run import run
from opscope.cli.sql import sql
from opscope.cli.summary import summary
from opscope.errors import OpscopeError
from opscope.memory_limit import memory_for

COMMANDS: tuple[Callable[..., Any], ...] = (
    run,
    summary,
    findings,
    memory,
    report,
    export,
    replay,
    sql,
    build,
    doctor,
)
"""In the order of ``opscope --help``. The function gives a command its name and its help."""

# What the command line parser raises for a wrong option or argument. typer exports only leaves of
# its error classes, and where the base class lives has changed between its releases.
_UsageErrors: Any = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"opscope {version('opscope')}")
        raise typer.Exit


def build_application() -> typer.Typer:
    """All commands, as typer has them."""
    application = typer.Typer(
        name="opscope",
        help="Record what a PyTorch program does, and see where its time went.",
        epilog="Start with: opscope run train.py",
        add_completion=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @application.callback(invoke_without_command=True)
    def options(
        context: typer.Context,
        show_version: Annotated[
            bool,
            typer.Option(
                "--version", callback=_show_version, is_eager=True, help="Print the version."
            ),
        ] = False,
    ) -> None:
        """Record what a PyTorch program does, and see where its time went."""
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    for command in COMMANDS:
        settings = {"allow_interspersed_args": False} if command is run else None
        application.command(context_settings=settings)(command)
    return application


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line in ``arguments`` (by default the process's own), and exit.

    Raises:
        SystemExit: 0; 2 for a usage error; otherwise the error's exit code. ``opscope run`` ends
            as the program it ran.
    """
    command = typer.main.get_command(build_application())
    try:
        with memory_for("this command"):
            outcome = command.main(
                args=None if arguments is None else list(arguments),
                prog_name="opscope",
                standalone_mode=False,
            )
        if not callable(outcome) and sys.stdout is not None:
            sys.stdout.flush()  # while what goes wrong can still be said
    except OpscopeError as error:
        Messages().fail(str(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:  # the reader has closed the pipe
        _give_up_output()
        sys.exit(1)
    except OSError as error:
        Messages().fail(
            f"The output cannot be written: {error.strerror or error}. Send it somewhere else."
        )
        _give_up_output()
        sys.exit(1)
    except typer.Abort:
        sys.exit(130)
    except _UsageErrors as error:
        Messages().fail(_usage_message(error))
        sys.exit(error.exit_code)
    if callable(outcome):
        # What is left to do runs here, below the parser's frames: a program that `opscope run`
        # runs should find a stack nearly as deep as Python's own.
        outcome()
    elif outcome:
        sys.exit(outcome)


def _give_up_output() -> None:
    """Keep the interpreter from flushing the closed pipe once more when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage_message(error: Any) -> str:
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "opscope"
    return f"{error.format_message()} See `{where} --help`."
