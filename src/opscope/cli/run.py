"""``opscope run``: record a program without changing it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from opscope.cli import destination, readiness
from opscope.cli.console import Messages
from opscope.cli.recording_session import RecordingSession
from opscope.cli.recording_switches import with_recording_switches
from opscope.cli.run_options import RunOptions, ScheduleOption
from opscope.cli.termination import LastAction
from opscope.cli.top_operators import (
    DEFAULT_ROWS,
    DEFAULT_SORT,
    check_row_limit,
    check_sort_key,
)
from opscope.errors import UsageError
from opscope.launch import program
from opscope.launch.torch_import import when_torch_is_imported
from opscope.recording.sources import switches
from opscope.settings import ProfileSettings

_WHAT = "What to record"
_WHERE = "What to write and print"


@with_recording_switches("recorded", panel=_WHAT)
def run(
    target: Annotated[
        str,
        typer.Argument(
            metavar="SCRIPT | -m MODULE",
            help="Script (or folder or zip file with a `__main__.py`), or after -m a module name.",
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS...", help="Passed to the program as they are."),
    ] = None,
    is_module: Annotated[
        bool, typer.Option("-m", help="Run a module by its name, as python -m does.")
    ] = False,
    recorded: frozenset[str] = frozenset(),
    flops: Annotated[
        bool,
        typer.Option("--flops", help="Estimated floating-point operations.", rich_help_panel=_WHAT),
    ] = False,
    schedule: Annotated[
        str | None,
        typer.Option(
            metavar="WAIT,WARMUP,ACTIVE[,REPEAT]",
            help="Record some steps only; a step ends when the optimizer's step() returns.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder of the trace; an earlier trace is replaced.",
            show_default="NAME.opscope",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    chrome: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a Chrome trace: .json or .json.gz.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a page to look at the trace with: .html.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    sort_by: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Sort the table by this column.",
            show_default=DEFAULT_SORT,
            rich_help_panel=_WHERE,
        ),
    ] = None,
    row_limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Rows of the table; -1 for all.",
            show_default=str(DEFAULT_ROWS),
            rich_help_panel=_WHERE,
        ),
    ] = None,
    table: Annotated[
        bool | None,
        typer.Option(
            "--table/--no-table",
            help="Print the table of operators.",
            show_default="with --sort-by or --row-limit",
            rich_help_panel=_WHERE,
        ),
    ] = None,
) -> Callable[[], None]:
    """Run a program, record what torch does in it, then say where the time went.

    The program needs no change and sees none: same arguments, same standard output, same exit
    code. Everything opscope says goes to standard error. Recording begins when the program
    imports torch.

    In a program that uses torch.profiler itself, that records with opscope too; set
    OPSCOPE_DROP_IN=0 to have it record by itself, beside opscope.

    The trace is written however the program ends: normally, by an exception, by sys.exit, by
    Ctrl-C or by SIGTERM. Three ends cannot be noticed from inside a process and lose the
    recording: os._exit(), os.exec*(), and being killed by SIGKILL or a crash.
    """
    shaped = sort_by is not None or row_limit is not None
    if table is False and shaped:
        raise UsageError(
            "--sort-by and --row-limit shape the table that --no-table leaves out. Drop one or "
            "the other."
        )
    if "memory" in (sort_by or "") and "memory" not in recorded:
        raise UsageError(f"--sort-by {sort_by} needs memory to be recorded. Add --memory.")
    if sort_by == "flops" and not flops:
        raise UsageError("--sort-by flops needs operations to be counted. Add --flops.")
    options = RunOptions(
        settings=ProfileSettings.of(
            {
                **{s.parameter: True for s in switches() if s.option in recorded},
                "with_flops": flops,
            }
        ),
        schedule=None if schedule is None else ScheduleOption.parse(schedule),
        sort_by=check_sort_key(sort_by or DEFAULT_SORT),
        row_limit=check_row_limit(DEFAULT_ROWS if row_limit is None else row_limit),
        table=shaped if table is None else table,
    )
    asked_for = program.Program(target, tuple(arguments or ()), is_module)
    program.check(asked_for)
    files = destination.choose(output, chrome, asked_for.short_name, report)
    files.check()
    readiness.check()
    return lambda: _record(asked_for, RecordingSession(options, files, Messages(animated=False)))


def _record(asked_for: program.Program, session: RecordingSession) -> None:
    last_action = LastAction(session.finish)
    when_torch_is_imported(session.begin)
    try:
        program.run(asked_for)
    except KeyboardInterrupt:
        last_action.after_interrupt()
        raise
    except program.ProgramNotFoundError as error:
        last_action.cancel()
        Messages().fail(str(error))
        raise SystemExit(error.exit_code) from None
