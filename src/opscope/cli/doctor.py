"""Check what opscope can record here; build the bridge, recover a trace, print shell completions.

The check records a few operators. Exit code: 0 if recording works, else 1.

--build compiles the C++ extension for the installed torch. opscope does this at first use; do it
ahead of time in a container image, or on a machine with a compiler for one without (set
OPSCOPE_CACHE to a folder that both can read).

--recover writes the trace of a program that was killed or crashed. `opscope run` starts a watchdog
process that does this, unless it was killed too. In a folder of flight recorder dumps, unfinished
dumps become traces.

--completion prints the shell's completion script for opscope. Write it to
~/.local/share/bash-completion/completions/opscope, for zsh to ~/.zfunc/_opscope with ~/.zfunc in
$fpath, for fish to ~/.config/fish/completions/opscope.fish; and again after an upgrade of opscope.

--skill writes the skill file that teaches a coding agent to profile with opscope, to the agent's
folder for skills, such as .claude/skills.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
from rich.table import Table
from rich.text import Text

import opscope
from opscope.analysis.device_account import describe_devices
from opscope.analysis.recording_cost import cost_of_an_event_ns
from opscope.base.cache_folder import cache_folder
from opscope.cli.parser import Parser, example, one_of
from opscope.cli.session.keeper import recover_all
from opscope.cli.views.console import Messages, Output, console_for
from opscope.columns.device_rules import check_device_rules
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.errors import BridgeError, OpscopeError
from opscope.launch.program import execute
from opscope.recording.bridge import bridge


class Health(str, Enum):
    """Outcome of a check; ``FATAL`` means that nothing can be recorded."""

    GOOD = "ok"
    ABSENT = "no"
    FATAL = "fails"


_STYLES = {Health.GOOD: "green", Health.ABSENT: "yellow", Health.FATAL: "bold red"}


@dataclass(frozen=True)
class Check:
    """Result of a check: one line of the output."""

    what: str  # the checked thing
    verdict: Health
    detail: str


class Shell(str, Enum):
    """Shells with completion scripts."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    TCSH = "tcsh"


def options(parser: Parser) -> None:
    """Add the options."""
    what = parser.add_argument_group("instead of the check").add_mutually_exclusive_group()
    what.add_argument(
        "--build",
        action="store_true",
        help="Compile the C++ extension for the installed torch ahead of time.",
    )
    what.add_argument(
        "--recover",
        metavar="FOLDER",
        type=Path,
        help="Write the traces of unfinished recordings in FOLDER.",
    )
    what.add_argument(
        "--skill",
        metavar="DIR",
        type=Path,
        help="Write the skill file for coding agents to this folder.",
    )
    what.add_argument(
        "--completion", **one_of(Shell), help="Print the completion script for this shell."
    )
    parser.add_argument(
        "--force", action="store_true", help="With --build: compile even if the cache has it."
    )
    parser.epilog = example("opscope doctor", "opscope doctor --recover train.opscope")


def main(args: Namespace) -> int:
    """Check, or run the requested action."""
    if args.recover is not None:
        recover_all(args.recover, Messages())
    elif args.completion is not None:
        from opscope.cli.views.completion import completion

        Output().write(completion(args.completion.value))
    elif args.skill is not None:
        from opscope.readers.skill import write_skill

        Messages().say(f"wrote {write_skill(args.skill)}")
    elif args.build:
        _build(args.force)
    else:
        return _check()
    return 0


def _build(force: bool) -> None:
    messages = Messages()
    ready = not force and bridge.status().built
    began = time.monotonic()
    path = bridge.build(force=force)
    if ready:
        messages.say(f"already built: {path}")
    else:
        messages.say(f"built in {time.monotonic() - began:.1f} s: {path}")


def _check() -> int:
    table = Table(box=None, show_header=False, pad_edge=False)
    checks = []
    for check in _checks():
        checks.append(check)
        mark = Text(check.verdict.value, _STYLES[check.verdict])
        table.add_row(Text(check.what), mark, Text(check.detail))
    console_for(sys.stdout).print(table)
    return int(any(check.verdict is Health.FATAL for check in checks))


def _checks() -> Iterator[Check]:
    yield Check("Python", Health.GOOD, f"{platform.python_version()} at {sys.executable}")
    yield Check("opscope", Health.GOOD, opscope.__version__)
    yield _clock()
    try:
        status = bridge.status()
    except BridgeError as error:
        yield Check("torch", Health.FATAL, str(error))
        return
    yield Check("torch", Health.GOOD, status.torch_version)
    yield _compiler(status)
    yield _bridge(status)
    yield from _recording()


def _clock() -> Check:
    machine = platform.machine()
    if machine not in ("x86_64", "AMD64", "i386", "i686"):
        return Check("clock", Health.GOOD, f"system counter of {machine}")
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            flags = next((line.split() for line in file if line.startswith("flags")), [])
    except OSError:
        flags = []
    if "constant_tsc" in flags and "nonstop_tsc" in flags:
        return Check("clock", Health.GOOD, "time stamp counter, constant rate")
    return Check(
        "clock",
        Health.ABSENT,
        "the time stamp counter may not have a constant rate here (a virtual machine may hide "
        "that it has), so long durations can be wrong by as much as the CPU frequency changes",
    )


def _compiler(status: bridge.BridgeStatus) -> Check:
    if status.compiler is not None:
        return Check("compiler", Health.GOOD, status.compiler)
    return Check(
        "compiler",
        Health.ABSENT if status.built else Health.FATAL,
        "no C++ compiler found; one is needed to build the bridge to another torch. Install g++ "
        "or set CXX",
    )


def _bridge(status: bridge.BridgeStatus) -> Check:
    if status.shipped:
        return Check("bridge", Health.GOOD, f"shipped with opscope: {status.path}")
    if status.built:
        return Check("bridge", Health.GOOD, f"built for this torch: {status.path}")
    detail = f"not built yet; the first use builds it in {cache_folder()}"
    return Check("bridge", Health.ABSENT, detail)


def _recording() -> Iterator[Check]:
    try:
        trace = _record_trial()
    except OpscopeError as error:
        yield Check("recording", Health.FATAL, str(error))
        return
    cost_ns = cost_of_an_event_ns(trace)
    cost = f"; one event costs about {cost_ns:.0f} ns" if cost_ns else ""
    works = len(trace.events) > 0
    detail = (
        f"{len(trace.events)} events in a test{cost}" if works else "the test recorded no events"
    )
    yield Check("recording", Health.GOOD if works else Health.FATAL, detail)
    if len(trace.table("gpu")):  # otherwise _sources() has a line about it
        health = Health.FATAL if check_device_rules(trace).doubts else Health.GOOD
        yield from (Check("devices", health, line) for line in describe_devices(trace))
    yield from _sources(trace)


_NOT_YET = "this version of opscope does not record it"

# Text, because calls from opscope's own functions are not recorded.
_PROGRAM = """
network = torch.nn.Linear(4, 2, device=device)
network(torch.ones(3, 4, device=device)).sum().backward()
"""


def _record_trial() -> TraceData:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    recording = opscope.profile(
        record_shapes=True, profile_memory=True, with_stack=True, with_modules=True
    )
    with recording, opscope.record_function("trial"):
        execute(compile(_PROGRAM, "<trial>", "exec"), {"torch": torch, "device": device})
    return recording.trace


def _sources(trace: TraceData) -> Iterator[Check]:
    """One check for each kind of data in the trial recording."""
    kinds = set(np.unique(trace.events["kind"]).tolist())
    # Not any Python call: every trace has the functions that ran when the recording began.
    has_calls = any(name.endswith(": forward") for name in trace.names)
    has_gpu_rows = len(trace.table("gpu")) > 0
    for name, was_recorded, option, why_not in (
        ("operators", EventKind.OPERATOR in kinds, "always", "torch ran none"),
        ("annotations", EventKind.ANNOTATION in kinds, "always", _NOT_YET),
        ("shapes", len(trace.table("tensors")) > 0, "--shapes", _NOT_YET),
        ("memory", len(trace.table("allocations")) > 0, "--memory", _NOT_YET),
        ("Python calls", has_calls, "--stack", _NOT_YET),
        ("nn.Module calls", EventKind.MODULE_CALL in kinds, "--modules", _NOT_YET),
        ("GPU activity", has_gpu_rows, "where torch sees a GPU", _why_no_gpu(trace)),
    ):
        health, detail = (Health.GOOD, option) if was_recorded else (Health.ABSENT, why_not)
        yield Check(f"  {name}", health, detail)


def _why_no_gpu(trace: TraceData) -> str:
    import torch

    if torch.cuda.is_available():
        return str(trace.metadata.get("gpu", {}).get("unavailable", "no work ran on it"))
    if torch.version.cuda is None:
        return "this torch was built without CUDA"
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return f"no NVIDIA driver here; this torch was built for CUDA {torch.version.cuda}"
    return (
        "torch finds no GPU, although an NVIDIA driver is installed; CUDA_VISIBLE_DEVICES may "
        "hide it"
    )
