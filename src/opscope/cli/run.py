"""``opscope run``: record a program without changing it."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from opscope.analysis.top_operators import (
    DEFAULT_ROWS,
    DEFAULT_SORT,
    check_row_limit,
    check_sort_key,
)
from opscope.cli import destination, readiness
from opscope.cli.parameters import Argument, Option
from opscope.cli.session.recording_switches import RecordedOptions
from opscope.cli.session.run_options import WHY, RunOptions, ScheduleOption
from opscope.cli.session.termination import LastAction
from opscope.cli.shown.console import Messages
from opscope.errors import UsageError
from opscope.launch import program
from opscope.launch.hidden_modules import hide_modules, with_own_modules
from opscope.launch.kineto_switch import hide_from_kineto
from opscope.launch.torch_import import when_torch_is_imported
from opscope.recording.sources import switches
from opscope.torch_api.settings import ProfileSettings

if TYPE_CHECKING:
    from opscope.cli.session.flight_session import FlightSession
    from opscope.cli.session.recording_session import RecordingSession
    from opscope.cli.session.run_options import FlightOptions

_WHAT = "What to record"
_WHERE = "What to write and print"
_FLIGHT = "Flight recorder"
_MAX_MEMORY = "256MiB"
_BUDGET = "0.01"


def run(
    words: Annotated[
        list[str],
        Argument(
            metavar="SCRIPT|-m MODULE|-c CODE|-",
            help="Script (or folder or zip file with a `__main__.py`); after -m a module; after -c "
            "the program itself; with - it comes through standard input. All that follows is "
            "handed to the program as it is.",
            takes_rest=True,
        ),
    ],
    is_module: Annotated[
        bool, Option(names=("-m",), help="Run a module by its name, as python -m does.")
    ] = False,
    is_code: Annotated[
        bool, Option(names=("-c",), help="Run what stands there, as python -c does.")
    ] = False,
    why: Annotated[
        bool,
        Option(
            help="Say what makes it slow: record everything that tells, but only of a few steps "
            "once it is warm, and print what to change.",
            heading=_WHAT,
        ),
    ] = False,
    recorded: RecordedOptions = (),
    flops: Annotated[
        bool,
        Option(help="Estimated floating-point operations.", heading=_WHAT),
    ] = False,
    source_lines: Annotated[
        bool | None,
        Option(
            help="With Python calls, keep the text of the program's own lines.",
            default="kept",
            heading=_WHAT,
        ),
    ] = None,
    schedule: Annotated[
        str | None,
        Option(
            metavar="WAIT,WARMUP,ACTIVE[,REPEAT]",
            help="Record some steps only; a step ends when the optimizer's step() returns.",
            heading=_WHAT,
        ),
    ] = None,
    children: Annotated[
        bool,
        Option(
            help="Record the processes that the program starts, too: forked and spawned ones, data "
            "loader's workers, ranks of torchrun. Each is a part of the same folder, or has a "
            "flight recorder of its own.",
            heading=_WHAT,
        ),
    ] = False,
    flight_recorder: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="Keep only the last TIME (30s, 5min), and write it when something happens: a slow "
            "step, an exception, no memory, no step for two minutes, SIGUSR2.",
            heading=_FLIGHT,
        ),
    ] = None,
    max_memory: Annotated[
        str | None,
        Option(
            metavar="SIZE",
            help="Memory of the flight recorder.",
            default=_MAX_MEMORY,
            heading=_FLIGHT,
        ),
    ] = None,
    budget: Annotated[
        str | None,
        Option(
            metavar="SHARE",
            help="Share of the time that the flight recorder may cost; it records less where it "
            "costs more. 'none': it records everything.",
            default=_BUDGET,
            heading=_FLIGHT,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Option(
            names=("--output", "-o"),
            metavar="DIR",
            help="Folder of the trace; a trace that is there already is replaced. With "
            "--flight-recorder, the folder for dumps.",
            default="NAME.opscope; NAME-2.opscope and so on where that is there",
            heading=_WHERE,
        ),
    ] = None,
    stream: Annotated[
        bool | None,
        Option(
            help="Keep the recording in a file in that folder while the program runs, so that it "
            "outlives the program.",
            default="kept",
            heading=_WHERE,
        ),
    ] = None,
    keeper: Annotated[
        bool | None,
        Option(
            help="Have a process wait that writes the trace, or what the flight recorder has, if "
            "the program is killed.",
            default="one waits",
            heading=_WHERE,
        ),
    ] = None,
    max_disk: Annotated[
        int | None,
        Option(
            metavar="MB",
            minimum=4,
            help="How large the file may grow.",
            default="half of what is free",
            heading=_WHERE,
        ),
    ] = None,
    chrome: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Also write a Chrome trace: .json or .json.gz.",
            heading=_WHERE,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Also write a page to look at the trace with: .html.",
            heading=_WHERE,
        ),
    ] = None,
    sort_by: Annotated[
        str | None,
        Option(
            metavar="KEY",
            help="Sort the table by this column.",
            default=DEFAULT_SORT,
            heading=_WHERE,
        ),
    ] = None,
    row_limit: Annotated[
        int | None,
        Option(
            metavar="N",
            help="Rows of the table; -1 for all.",
            default=str(DEFAULT_ROWS),
            heading=_WHERE,
        ),
    ] = None,
    table: Annotated[
        bool | None,
        Option(
            help="Print the table of operators.",
            default="with --sort-by or --row-limit",
            heading=_WHERE,
        ),
    ] = None,
) -> Callable[[], None]:
    """Run a program, record what torch does in it, then say where the time went.

    The program needs no change and sees none: same arguments, same standard output, same exit
    code. Everything opscope says goes to standard error. Recording begins when the program
    imports torch.

    In a program that uses torch.profiler itself, that records with opscope too; set
    OPSCOPE_DROP_IN=0 to have it record by itself, beside opscope.

    The trace is written however the program ends. Ends that cannot be noticed from inside a
    process (os._exit(), os.exec*(), a crash, being killed) leave the recording in a file, which a
    process that waits for that makes into the trace; so does `opscope recover`.
    """
    shaped = sort_by is not None or row_limit is not None
    if why:
        recorded = WHY.union(recorded)
        if schedule is not None:
            raise UsageError(
                "--why chooses the steps that it records, and so does --schedule. Drop one or the "
                "other."
            )
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
            },
            source_lines=source_lines is not False,
        ),
        schedule=None if schedule is None else ScheduleOption.parse(schedule),
        why=why,
        sort_by=check_sort_key(sort_by or DEFAULT_SORT),
        row_limit=check_row_limit(DEFAULT_ROWS if row_limit is None else row_limit),
        table=shaped if table is None else table,
        stream=stream is not False,
        keeper=keeper is not False,
        max_disk_bytes=None if max_disk is None else max_disk * 1_000_000,
    )
    flight = _flight_options(flight_recorder, max_memory, budget, output)
    _refuse_with_flight(
        flight,
        {"--why": why, "--schedule": schedule, "--chrome": chrome, "--report": report},
        {"--table": table, "--flops": flops},
    )
    if children and stream is False and flight is None:
        raise UsageError(
            "--children has every process record to a file, because most of them end in ways that "
            "they cannot notice; --no-stream is for one process alone. Drop one or the other."
        )
    if is_module and is_code:
        raise UsageError("-m runs a module and -c code. Drop one or the other.")
    # Before Python 3.13.1 argparse leaves the dashes there that end options.
    target, *arguments = words[1:] if words[0] == "--" and len(words) > 1 else words
    asked_for = program.Program(target, tuple(arguments), is_module, is_code)
    program.check(asked_for)
    files = destination.choose(output, chrome, asked_for.short_name, report)
    if flight is None:
        files.check()
    readiness.check()
    # The recorder and all that it writes with; a question for help should not wait for them.
    from opscope.cli.session.recording_session import RecordingSession

    messages = Messages(animated=False)
    if flight is not None:
        from opscope.cli.session.flight_session import FlightSession

        flying = FlightSession(options, flight, messages, has_children=children)
        return lambda: _record(asked_for, flying)
    if not children:
        alone = RecordingSession(options, files, messages)
        return lambda: _record(asked_for, alone, alone.program_is_over)
    from opscope.live.children.job import ChildrenOfRun
    from opscope.live.children.settings import ChildSettings

    job = ChildrenOfRun(
        ChildSettings(
            folder=files.trace,
            arguments=options.settings.arguments,
            max_disk_bytes=options.max_disk_bytes,
            drop_in=os.environ.get("OPSCOPE_DROP_IN") != "0",
            schedule=None if options.schedule is None else asdict(options.schedule),
            why=why,
        ),
        options.keeper,
    )
    session = RecordingSession(options, files, messages, job)
    job.prepare()
    return lambda: _record(asked_for, session, session.program_is_over)


def _flight_options(
    last: str | None, max_memory: str | None, budget: str | None, directory: Path | None
) -> FlightOptions | None:
    if last is None:
        if max_memory is not None or budget is not None:
            raise UsageError(
                "--max-memory and --budget are the flight recorder's. Add --flight-recorder 30s, "
                "or drop them."
            )
        return None
    from opscope.cli.session.run_options import FlightOptions

    return FlightOptions.parse(last, max_memory or _MAX_MEMORY, budget or _BUDGET, directory)


def _refuse_with_flight(flight: FlightOptions | None, *given: dict[str, object]) -> None:
    if flight is None:
        return
    for options in given:
        for option, value in options.items():
            if value:
                raise UsageError(
                    f"{option} is for a recording of the whole program; --flight-recorder keeps "
                    "its end only. Drop one or the other."
                )


def _record(
    asked_for: program.Program,
    session: RecordingSession | FlightSession,
    when_over: Callable[[], None] = lambda: None,
) -> None:
    last_action = LastAction(with_own_modules(session.finish))
    if os.environ.get("OPSCOPE_DROP_IN") != "0":
        hide_from_kineto()
    when_torch_is_imported(with_own_modules(session.begin))
    # The program's garbage collections need not look through what opscope has imported: importing
    # torch alone is dozens of them.
    gc.freeze()
    hide_modules()
    try:
        program.run(asked_for)
    except KeyboardInterrupt:
        last_action.after_interrupt()
        raise
    except program.ProgramNotFoundError as error:
        last_action.cancel()
        Messages().fail(str(error))
        raise SystemExit(error.exit_code) from None
    finally:
        # Called before all that the program has registered, and once its threads have ended.
        atexit.register(when_over)
