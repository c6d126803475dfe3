"""List the processes that opscope can reach, or record a running process.

opscope reaches a process that called opscope.listen(), or that has OPSCOPE_CONTROL=1 in its
environment and imports opscope or runs under `opscope run`. From Python 3.14 on, opscope can make
other processes listen. Sockets of ended processes are removed.

With PID, opscope records the process for some seconds. Afterwards the process has its original
state. This command makes the trace, not the process. --start records until --stop; the recording
stays in the memory of the process and is lost if the process ends first, so use `opscope run
--flight-recorder` for long times. --dump makes its flight recorder write a dump, and prints the
dump's path. A process whose GIL is held cannot answer, but its flight recorder still receives a
signal: kill -USR2 PID.
"""

from __future__ import annotations

import json
import re
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Collection
from pathlib import Path
from shlex import quote
from typing import Any

from opscope.base.printable import printable
from opscope.cli import destination
from opscope.cli.parser import Parser, example, seconds, whole_number
from opscope.cli.session.options import add_switches
from opscope.cli.session.termination import unwound_when_ended
from opscope.cli.views.completeness import describe_completeness
from opscope.cli.views.console import Messages, Output
from opscope.cli.views.findings import headline
from opscope.cli.views.results import Result, RowsFormat, Section, add_format
from opscope.columns.trace_data import TraceData
from opscope.errors import ReachError, UsageError
from opscope.jobs.saving import save_trace
from opscope.live.control.address import Address, addresses, remove_if_stale
from opscope.live.control.client import ControlClient, connect
from opscope.live.control.injection import reach
from opscope.recording.sources import switches
from opscope.recording.streams.detached_trace import trace_of_log
from opscope.recording.streams.load import load_trace

_HEADING = ("pid", "since", "recording", "torch", "command")
_ANSWER_S = 1.0
_LONGEST_S = 86_400.0


def add_process(parser: ArgumentParser, nargs: str | None = None) -> None:
    """Add the argument PID."""
    parser.add_argument(
        "process",
        metavar="PID",
        nargs=nargs,
        type=whole_number(),
        help="Process ID; `opscope attach` lists the processes.",
    )


def options(parser: Parser) -> None:
    """Add the options."""
    add_process(parser, "?")
    actions = parser.add_argument_group("instead of recording now").add_mutually_exclusive_group()
    actions.add_argument("--start", action="store_true", help="Start recording; --stop ends it.")
    actions.add_argument(
        "--stop",
        action="store_true",
        help="Stop the recording that --start began, and write its trace.",
    )
    actions.add_argument(
        "--dump", action="store_true", help="Make the flight recorder write a dump now."
    )
    actions.add_argument(
        "--status", action="store_true", help="Print what the process records, as JSON."
    )
    parser.add_argument(
        "--reason",
        metavar="TEXT",
        default="",
        help="With --dump: the reason, a few words; stored in the trace.",
    )
    parser.add_argument(
        "--seconds",
        metavar="N",
        type=seconds(1e-9, _LONGEST_S),
        default=10.0,
        help="Duration; Ctrl-C ends it earlier. [default: 10]",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        help="Folder of the trace; replaces an existing trace. [default: NAME-PID.opscope]",
    )
    add_switches(parser.add_argument_group("what to record"))
    add_format(parser)
    parser.epilog = example("opscope attach", "opscope attach 4711 --seconds 5 --shapes")


def main(args: Namespace) -> None:
    """List processes, or control one."""
    if args.process is None:
        if args.start or args.stop or args.dump or args.status:
            raise UsageError(
                "The PID of the process is missing; `opscope attach` lists the processes."
            )
        _list(args.format)
    elif args.start:
        with unwound_when_ended(), reach(args.process) as client:
            client.request("start", recorded=arguments_of(args.recorded))
        Messages().say(f"recording; end it with: opscope attach {args.process} --stop")
    elif args.stop:
        with connect(args.process) as client:
            folder = _folder_for(args.output, args.process, client.status["command"])
            log, answer = client.request_log("stop", folder=str(folder))
        _save_and_describe(log, answer, folder)
    elif args.dump:
        with connect(args.process) as client:
            answer = client.request("dump", reason=args.reason)
        Output().show(f"{answer['trace']}\n")
    elif args.status:
        with connect(args.process) as client:
            status = {key: value for key, value in client.status.items() if key != "opscope"}
        Output().write(json.dumps(status, indent=1, ensure_ascii=False) + "\n")
    else:
        with unwound_when_ended():
            folder, (log, answer) = _recorded(args)
            _save_and_describe(log, answer, folder)


def arguments_of(recorded: Collection[str]) -> dict[str, bool]:
    """Switches as profile arguments, for the request to the process."""
    return {s.parameter: True for s in switches() if s.option in recorded and s.parameter}


def _recorded(args: Namespace) -> tuple[Path, tuple[bytes, dict[str, Any]]]:
    """Record for some seconds; returns the folder of the trace, the log and the answer."""
    with reach(args.process) as client:
        folder = _folder_for(args.output, args.process, client.status["command"])
        client.request("record", recorded=arguments_of(args.recorded))
        try:
            Messages().say(f"recording process {args.process} for {args.seconds:g} s ...")
            client.wait(args.seconds)
        except KeyboardInterrupt:
            Messages().say("ended early")
        return folder, client.request_log("hand over", folder=str(folder))


def _folder_for(output: Path | None, process: int, command: str) -> Path:
    words = [Path(word).stem for word in command.split() if word.endswith(".py")]
    name = re.sub(r"[^\w.-]+", "-", words[0] if words else "process")
    paths = destination.choose(output, None, f"{name}-{process}")
    destination.check(paths)
    return paths.trace


def _save_and_describe(log: bytes, answer: dict[str, Any], folder: Path) -> None:
    """Write the trace, unless the process did, and print its headline."""
    messages = Messages()
    trace, folder_written = _write_trace(log, answer, folder)
    messages.say(f"trace written to {folder_written}")
    for line in headline(trace):
        messages.say(line)
    messages.say(describe_completeness(trace))
    messages.say(f"details: `opscope summary {quote(str(folder_written))}`")


def _write_trace(log: bytes, answer: dict[str, Any], folder: Path) -> tuple[TraceData, Path]:
    if "trace" in answer:
        return load_trace(answer["trace"]), Path(answer["trace"])
    trace = trace_of_log(log, answer.get("facts", {}))
    save_trace(trace, folder)
    return trace, folder


def _list(format: RowsFormat) -> None:
    listening = [address for address in addresses() if not remove_if_stale(address)]
    rows = [_row(address) for address in listening]
    Result(
        sections=[Section(columns=_HEADING, rows=rows, wraps=True)] if rows else [],
        content=[
            {**dict(zip(_HEADING, row, strict=True)), "pid": address.process}
            for address, row in zip(listening, rows, strict=True)
        ],
        columns=_HEADING,
        rows=rows,
    ).show(format)
    if not rows and format is RowsFormat.TABLE:
        Messages().say(
            "no process of yours listens; start one with OPSCOPE_CONTROL=1 under `opscope "
            "run`, or let it call opscope.listen()"
        )


def _row(address: Address) -> tuple[str, ...]:
    try:
        with ControlClient(address, _ANSWER_S) as client:
            return (str(address.process), *described(client.status))
    except ReachError:
        return (str(address.process), "", "does not answer", "", "")


def described(status: dict[str, Any]) -> tuple[str, ...]:
    """Columns of the list for a process that answers, without the first."""
    since = time.strftime("%H:%M:%S", time.localtime(status["listening_since_ns"] / 1e9))
    flights = ", ".join(f"flight recorder {one['held_s']:.0f} s" for one in status["flight"])
    recording = flights or ("yes" if status["recording"] else "no")
    return since, recording, status["torch"] or "not imported", printable(status["command"])
