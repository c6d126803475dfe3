"""Run a program and record what torch does in it, then print where the time went.

The program needs no change: it gets the same arguments, writes the same standard output and ends
with the same exit code. opscope prints to standard error. Recording begins when the program imports
torch: operators during the whole run, and some steps in detail, so that opscope can say why the
program is slow (--record). torch.profiler in the program also records with opscope;
OPSCOPE_DROP_IN=0 disables this.

The trace is written after every kind of end. If the process is killed, crashes, or calls os._exit()
or os.exec*(), a watchdog process writes the trace from the file of the recording. If the watchdog
was killed too, run `opscope doctor --recover`.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import importlib.metadata
import importlib.util
import math
import os
import re
import subprocess
from argparse import BooleanOptionalAction, Namespace
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.base.cache_folder import cache_folder
from opscope.base.python_process import own_python
from opscope.cli import destination
from opscope.cli.parser import Parser, add_confidential, example, whole_number
from opscope.cli.session.options import (
    RunOptions,
    add_switches,
    parse_record_option,
    parse_schedule,
)
from opscope.cli.session.page_after_run import show_when_over
from opscope.cli.session.termination import LastAction
from opscope.cli.views.console import Messages
from opscope.columns.confidential_copy import ARGUMENTS, LEAVE_OUT, NAMES
from opscope.errors import BridgeError, UsageError
from opscope.launch import program
from opscope.launch.hidden_modules import hide_modules, with_own_modules
from opscope.launch.kineto_switch import hide_from_kineto
from opscope.launch.torch_import import when_torch_is_imported
from opscope.recording.bridge import torch_build
from opscope.recording.facts.process_facts import launched_rank
from opscope.recording.sources import DETAIL, switches
from opscope.torch_api.settings import ProfileSettings

if TYPE_CHECKING:
    from opscope.cli.session.flight_session import FlightSession
    from opscope.cli.session.http_session import HttpSession
    from opscope.cli.session.recording_session import RecordingSession

_MAX_MEMORY = "256MiB"
_BUDGET = 0.01
_RECORDING_OPTIONS = ("recorded", "record", "children")
_WHOLE_RUN_OPTIONS = ("why", "schedule", "chrome", "report", "view", "table", "flops")


def options(parser: Parser) -> None:
    """Add the options."""
    parser.usage = "%(prog)s [OPTIONS] SCRIPT|-m MODULE|-c CODE|- ..."
    parser.add_argument(
        "words",
        nargs=argparse.PARSER,
        metavar="SCRIPT|-m MODULE|-c CODE|-",
        help="Script (or folder or zip file with a `__main__.py`); after -m a module; after -c "
        "Python code; - reads the script from standard input. All arguments after it go to "
        "the program.",
    )
    parser.add_argument(
        "-m", dest="is_module", action="store_true", help="Run a module, like python -m."
    )
    parser.add_argument(
        "-c", dest="is_code", action="store_true", help="Run the given code, like python -c."
    )
    _add_recording_options(parser)
    _add_flight_recorder(parser)
    _add_output_options(parser)
    add_confidential(parser)
    parser.show_only(
        *("--why", "--shapes", "--memory", "--stack", "--children", "--flight-recorder"),
        *("--output", "--report"),
    )
    parser.epilog = example(
        "opscope run --why train.py --epochs 1", "opscope run -o first.opscope -m my.training"
    )


def _add_recording_options(parser: Parser) -> None:
    group = parser.add_argument_group("what to record")
    group.add_argument(
        "--why",
        action="store_true",
        help="At the end, print every problem with its line, its fix and the saving.",
    )
    group.add_argument(
        "--record",
        metavar="WHAT[,WHAT]",
        type=parse_record_option,
        help="Record this data during the whole run, and nothing in detail: operators, and the "
        "data of the options below. [default: operators during the whole run, and some steps "
        "in detail]",
    )
    add_switches(group)
    group.add_argument("--flops", action="store_true", help="Estimate floating-point operations.")
    group.add_argument(
        "--source-lines",
        action=BooleanOptionalAction,
        help="With Python calls: store the text of the program's source lines. [default: stored]",
    )
    group.add_argument(
        "--schedule",
        metavar="WAIT,WARMUP,ACTIVE[,REPEAT]",
        type=parse_schedule,
        help="Record only some steps; a step ends when Optimizer.step returns.",
    )
    group.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="Record only from POST /start_profile to POST /stop_profile, as serving engines do. "
        "Requests need the printed token, or that of OPSCOPE_HTTP_TOKEN. Can be combined with "
        "--flight-recorder.",
    )
    group.add_argument(
        "--children",
        action="store_true",
        help="Also record child processes: forked and spawned ones, DataLoader workers, ranks "
        "of torchrun. Each one becomes a part of the same folder, or has its own flight "
        "recorder.",
    )


def _add_flight_recorder(parser: Parser) -> None:
    group = parser.add_argument_group("flight recorder")
    group.add_argument(
        "--flight-recorder",
        metavar="TIME",
        help="Keep only the last TIME (30s, 5min), and write it on an event: a slow step, an "
        "exception, out of memory, no step for two minutes, SIGUSR2.",
    )
    group.add_argument(
        "--max-memory",
        metavar="SIZE",
        help=f"Memory limit of the flight recorder. [default: {_MAX_MEMORY}]",
    )
    group.add_argument(
        "--budget",
        metavar="SHARE",
        type=_budget,
        help="Maximum overhead of the flight recorder as a share of the time; it records less "
        f"to stay below. 'none': no limit. [default: {_BUDGET}]",
    )


def _add_output_options(parser: Parser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        help="Folder of the trace; replaces an existing trace. With --flight-recorder, the "
        "folder for dumps. [default: NAME.opscope; if it exists, NAME-2.opscope and so on]",
    )
    group.add_argument(
        "--stream",
        action=BooleanOptionalAction,
        help="Keep the recording in a file in that folder, so that it survives a crash of the "
        "program. [default: on]",
    )
    group.add_argument(
        "--keeper",
        action=BooleanOptionalAction,
        help="Start a watchdog process that writes the trace or the dump if the program is "
        "killed. [default: on]",
    )
    group.add_argument(
        "--max-disk",
        metavar="MB",
        type=whole_number(4),
        help="Maximum size of the file of --stream. [default: half of the free space]",
    )
    group.add_argument(
        "--chrome", metavar="FILE", type=Path, help="Also write a Chrome trace: .json or .json.gz."
    )
    group.add_argument(
        "--report",
        metavar="FILE",
        type=Path,
        help="Also write an HTML report.",
    )
    group.add_argument(
        "--view",
        action="store_true",
        help="Show the trace in the browser when the program has ended, like opscope view.",
    )
    group.add_argument(
        "--table",
        action=BooleanOptionalAction,
        help="Print the table of operators. [default: off]",
    )


def _budget(text: str) -> float:
    """Parse a share of the time; "none" is infinity."""
    try:
        return math.inf if text == "none" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number. Give a share of the time (0.01 is 1 %), or 'none'"
        ) from None


def parsed(parser: Parser, words: Sequence[str]) -> Namespace:
    """Parse the words; ``-mtimeit`` is ``-m timeit``, as for python."""
    for index, word in enumerate(words):
        if re.match("-[mc].", word):
            split_words = [*words[:index], word[:2], word[2:]]
            try:
                is_program = parser.parse_args(split_words).words == [word[2:]]
            except UsageError:
                break
            words = [*split_words, *words[index + 1 :]] if is_program else words
            break
    return parser.parse_args(words)


def main(args: Namespace) -> Callable[[], None]:
    """Check the options; returns a function that runs the program."""
    for package in ("rich", "pyarrow"):  # only the process that writes the trace imports them
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(name=package)  # the command line says what to install
    run_options = _run_options(args)
    _refuse_conflicts(args)
    if args.no_arguments or args.hash_names:  # also for programs that this one starts
        os.environ[LEAVE_OUT] = NAMES if args.hash_names else ARGUMENTS
    # Before Python 3.13.1, argparse does not remove the ``--`` that ends the options.
    words = args.words
    target, *arguments = words[1:] if words[0] == "--" and len(words) > 1 else words
    what_to_run = program.Program(target, tuple(arguments), args.is_module, args.is_code)
    program.check(what_to_run)
    files = destination.choose(args.output, args.chrome, what_to_run.short_name, args.report)
    records_whole_run = args.flight_recorder is None and args.http is None
    if records_whole_run:
        destination.check(files)
    check_bridge()
    # Imported here, because it imports the recorder, and `--help` must be fast.
    from opscope.cli.session.recording_session import RecordingSession

    messages = Messages(animated=False)
    if not records_whole_run:
        flight = None if args.flight_recorder is None else _flight(args, run_options, messages)
        served = flight if args.http is None else _http(args, messages, flight)
        assert served is not None
        return lambda: _record(what_to_run, served)
    if args.view and launched_rank() in (None, 0):
        show_when_over(files.trace)
    if not args.children:
        alone = RecordingSession(run_options, files, messages)
        return lambda: _record(what_to_run, alone, alone.program_is_over)
    from opscope.live.children.child import ChildSettings
    from opscope.live.children.job import ChildrenOfRun

    job = ChildrenOfRun(
        ChildSettings(
            folder=files.trace,
            arguments=run_options.settings.arguments,
            max_disk_bytes=run_options.max_disk_bytes,
            drop_in=os.environ.get("OPSCOPE_DROP_IN") != "0",
            schedule=None if args.schedule is None else asdict(args.schedule),
            detail={} if run_options.detail is None else run_options.detail.arguments,
        ),
        run_options.keeper,
    )
    session = RecordingSession(run_options, files, messages, job)
    job.prepare()
    return lambda: _record(what_to_run, session, session.program_is_over)


def _flight(args: Namespace, run_options: RunOptions, messages: Messages) -> FlightSession:
    from opscope.cli.session.flight_session import FlightSession

    budget = _BUDGET if args.budget is None else args.budget
    folder = None if args.http is not None else args.output
    flight = {
        "last": args.flight_recorder,
        "max_memory": args.max_memory or _MAX_MEMORY,
        "budget": None if budget == math.inf else budget,
        "directory": os.path.abspath(folder or "opscope-dumps"),
    }
    return FlightSession(run_options, flight, messages, has_children=args.children)


def _http(args: Namespace, messages: Messages, flight: FlightSession | None) -> HttpSession:
    from opscope.cli.session.http_session import HttpSession

    root = Path(os.path.abspath(args.output or "opscope-profiles"))
    return HttpSession(args.http, root, messages, flight)


def _run_options(args: Namespace) -> RunOptions:
    recorded = [*args.recorded, *(args.record or ())]
    is_in_detail = all(
        getattr(args, name) is None for name in ("record", "schedule", "flight_recorder")
    )
    return RunOptions(
        settings=_settings(args, recorded),
        schedule=args.schedule,
        detail=_settings(args, DETAIL.union(recorded)) if is_in_detail else None,
        why=args.why,
        table=args.table is True,
        view=args.view,
        stream=args.stream is not False,
        keeper=args.keeper is not False,
        max_disk_bytes=None if args.max_disk is None else args.max_disk * 1_000_000,
    )


def _option_text(name: str) -> str:
    return "what to record" if name == "recorded" else f"--{name}"


def _settings(args: Namespace, recorded: Collection[str]) -> ProfileSettings:
    return ProfileSettings.of(
        {
            **{s.parameter: True for s in switches() if s.option in recorded},
            "with_flops": args.flops,
        },
        source_lines=args.source_lines is not False,
    )


def _refuse_conflicts(args: Namespace) -> None:
    hint = "Use only one of them."
    if args.why and args.schedule is not None:
        raise UsageError(f"--why and --schedule both choose the recorded steps. {hint}")
    if args.is_module and args.is_code:
        raise UsageError(f"-m and -c exclude each other. {hint}")
    if args.children and (args.no_arguments or args.hash_names):
        raise UsageError(
            "--no-arguments and --hash-names need one process: the list of processes that "
            f"--children makes has their command lines. {hint}"
        )
    if args.http is not None:
        for name in (*_WHOLE_RUN_OPTIONS, *(() if args.flight_recorder else _RECORDING_OPTIONS)):
            if getattr(args, name):
                raise UsageError(
                    "With --http, each request chooses what to record: "
                    f"--http excludes {_option_text(name)}. {hint}"
                )
    if args.flight_recorder is not None:
        for name in _WHOLE_RUN_OPTIONS:
            if getattr(args, name):
                raise UsageError(
                    f"--{name} needs a recording of the whole program, but --flight-recorder "
                    f"keeps only the last part. {hint}"
                )
    elif args.max_memory is not None or args.budget is not None:
        raise UsageError(
            "--max-memory and --budget are options of the flight recorder. Add "
            "--flight-recorder 30s, or remove them."
        )
    elif args.children and args.stream is False:
        raise UsageError(
            "--children needs a file for each process, because child processes are often "
            f"killed; --no-stream works for a single process only. {hint}"
        )


def check_bridge() -> None:
    """Check that torch is installed and its bridge is built, without importing torch.

    The program must import torch first (see :mod:`opscope.launch.torch_import`), so another process
    builds a missing bridge.
    """
    if importlib.util.find_spec("torch") is None:
        raise BridgeError(
            "torch is not installed for this Python. Install it (for example with `pip install "
            "torch`), or run opscope with the Python that has it."
        )
    if _some_bridge_is_built():
        return
    command = own_python(str(Path(__file__).parents[1] / "__main__.py"), "doctor", "--build")
    built = subprocess.run(command, stdin=subprocess.DEVNULL)
    if built.returncode != 0:
        # The other process has printed the reason to standard error.
        raise SystemExit(built.returncode)


def _some_bridge_is_built() -> bool:
    """Whether opscope or the cache has a bridge for this torch version.

    If its C++ ABI or opscope version differs, the start of the recording builds another.
    """
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return False
    # The package from PyPI has version 2.11.0, while torch.__version__ is 2.11.0+cu130.
    release = version.partition("+")[0]
    if torch_build.ships_for(release):
        return True
    return any(cache_folder().glob(f"bridge-torch-{release}[+-]*/stamp.json"))


def _record(
    what_to_run: program.Program,
    session: RecordingSession | FlightSession | HttpSession,
    when_over: Callable[[], None] = lambda: None,
) -> None:
    last_action = LastAction(with_own_modules(session.finish))
    if os.environ.get("OPSCOPE_DROP_IN") != "0":
        hide_from_kineto()
    when_torch_is_imported(with_own_modules(session.begin))
    # Exclude opscope's objects from the program's garbage collections, of which importing torch
    # alone causes dozens.
    gc.freeze()
    hide_modules()
    try:
        program.run(what_to_run)
    except KeyboardInterrupt:
        last_action.after_interrupt()
        raise
    except program.ProgramNotFoundError as error:
        last_action.cancel()
        Messages().fail(str(error))
        raise SystemExit(error.exit_code) from None
    finally:
        # Runs after the program's threads have ended, before its own exit handlers.
        atexit.register(when_over)
