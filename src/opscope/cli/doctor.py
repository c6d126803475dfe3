"""``opscope doctor``: what is installed, what would be recorded, and why not the rest."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from rich.table import Table
from rich.text import Text

import opscope
from opscope.analysis.device_account import describe_devices
from opscope.analysis.recording_cost import cost_of_an_event_ns
from opscope.cli.console import console_for
from opscope.cli.trial import record_a_little, sources_seen
from opscope.errors import BridgeError, OpscopeError
from opscope.recording import bridge


class Verdict(str, Enum):
    """How a check is marked; ``FATAL`` means that nothing can be recorded."""

    GOOD = "ok"
    ABSENT = "no"
    FATAL = "fails"


_STYLES = {Verdict.GOOD: "green", Verdict.ABSENT: "yellow", Verdict.FATAL: "bold red"}


@dataclass(frozen=True)
class Check:
    """One line of the answer: what was looked at, how it is, and what to do about it."""

    what: str
    verdict: Verdict
    detail: str


def doctor() -> int:
    """Say what is installed, what would be recorded, and why not the rest.

    Records a few operators to find out. Exits with 0 if recording works, else with 1.
    """
    table = Table(box=None, show_header=False, pad_edge=False)
    checks = []
    for check in _examine():
        checks.append(check)
        mark = Text(check.verdict.value, _STYLES[check.verdict])
        table.add_row(Text(check.what), mark, Text(check.detail))
    console_for(sys.stdout).print(table)
    return int(any(check.verdict is Verdict.FATAL for check in checks))


def _examine() -> Iterator[Check]:
    yield Check("Python", Verdict.GOOD, f"{platform.python_version()} at {sys.executable}")
    yield Check("opscope", Verdict.GOOD, opscope.__version__)
    yield _clock()
    try:
        status = bridge.status()
    except BridgeError as error:
        status = None
        yield Check("torch", Verdict.FATAL, str(error))
    if status is None:
        return
    yield Check("torch", Verdict.GOOD, str(status.torch_version))
    yield _compiler(status)
    yield _bridge(status)
    yield from _recording()


def _clock() -> Check:
    machine = platform.machine()
    if machine not in ("x86_64", "AMD64", "i386", "i686"):
        return Check("clock", Verdict.GOOD, f"the system counter of {machine}")
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            flags = next((line.split() for line in file if line.startswith("flags")), [])
    except OSError:
        flags = []
    if "constant_tsc" in flags and "nonstop_tsc" in flags:
        return Check("clock", Verdict.GOOD, "time stamp counter, constant and never stopping")
    return Check(
        "clock",
        Verdict.ABSENT,
        "the time stamp counter is not known to be constant here (a virtual machine may hide it), "
        "so long durations may be off by as much as the CPU's frequency changes",
    )


def _compiler(status: bridge.BridgeStatus) -> Check:
    if status.compiler is not None:
        return Check("compiler", Verdict.GOOD, status.compiler)
    return Check(
        "compiler",
        Verdict.ABSENT if status.built else Verdict.FATAL,
        "no C++ compiler found; one is needed to build the bridge to another torch. Install g++ "
        "or set CXX",
    )


def _bridge(status: bridge.BridgeStatus) -> Check:
    if status.shipped:
        return Check("bridge", Verdict.GOOD, f"came with opscope: {status.path}")
    if status.built:
        return Check("bridge", Verdict.GOOD, f"built for this torch: {status.path}")
    detail = f"not built yet; it will be at first use, in {bridge.cache_folder()}"
    return Check("bridge", Verdict.ABSENT, detail)


def _recording() -> Iterator[Check]:
    """Try it: what a recording with everything switched on holds is what would be recorded."""
    try:
        trace = record_a_little()
    except OpscopeError as error:
        yield Check("recording", Verdict.FATAL, str(error))
        return
    cost_ns = cost_of_an_event_ns(trace)
    cost = f"; one event costs about {cost_ns:.0f} ns" if cost_ns else ""
    works = len(trace.events) > 0
    detail = f"{len(trace.events)} events in a trial{cost}" if works else "a trial recorded nothing"
    yield Check("recording", Verdict.GOOD if works else Verdict.FATAL, detail)
    if len(trace.table("gpu")):  # otherwise the line about the source below says it
        for line in describe_devices(trace):
            yield Check("devices", Verdict.FATAL if "BROKEN" in line else Verdict.GOOD, line)
    for source in sources_seen(trace):
        if source.seen:
            yield Check(f"  {source.name}", Verdict.GOOD, source.asked_for)
        else:
            yield Check(f"  {source.name}", Verdict.ABSENT, source.why_not)
