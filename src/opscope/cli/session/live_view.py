"""What ``opscope top`` shows: one look at a process that runs, until a key is typed."""

from __future__ import annotations

import contextlib
import os
import select
import termios
import time
import tty
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from opscope.analysis.recording_cost import cost_of_an_event_ns
from opscope.analysis.top_operators import TopOperators, ran_anything
from opscope.base.printable import printable
from opscope.base.quantity_text import share_text, time_text
from opscope.cli.shown.completeness import describe_completeness
from opscope.cli.shown.operator_table import operator_text
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData

_MOST_MODULES = 8


class LiveView:
    """Lines about the process, then its operators, then its modules."""

    def __init__(self, status: dict[str, Any]) -> None:
        self._status = status

    def of(
        self, trace: TraceData, top: TopOperators, answer: dict[str, Any], width: int
    ) -> RenderableType:
        """What to show in so many columns, which may be others at every look."""
        steps = steps_text(answer["steps"], answer["steps_ns"])
        lines = [
            f"process {self._status['process']}: {self._status['command']}",
            f"{steps}; {_memory_text(int(self._status['process']))}",
            f"{describe_completeness(trace)}{own_share_text(trace)}",
        ]
        parts: list[RenderableType] = [
            Text(printable(line), overflow="ellipsis", no_wrap=True) for line in lines
        ]
        if ran_anything(trace):
            parts.append(operator_text(top, width))
        else:
            parts.append(Text("no operator ran meanwhile"))
        parts += [Text(printable(line)) for line in module_lines(trace)]
        return Group(*parts)


def steps_text(count: int, durations_ns: list[int]) -> str:
    """How many steps, and what the last of them took."""
    if not count or not durations_ns:
        return f"{count} steps"
    known = np.sort(np.array(durations_ns, dtype=np.int64))
    median, slowest = time_text(int(known[len(known) // 2])), time_text(int(known[-1]))
    of_which = f" (of the last {len(known)})" if len(known) < count else ""
    return f"{count} steps{of_which}: median {median}, slowest {slowest}"


def own_share_text(trace: TraceData) -> str:
    """What recording cost, as a share of the time; empty where it is not known."""
    cost_ns = cost_of_an_event_ns(trace)
    took_ns = trace.metadata["end_ns"] - trace.metadata["start_ns"]
    if not cost_ns or took_ns <= 0:
        return ""
    return f", {share_text(len(trace.events) * cost_ns / took_ns)} of the time"


def module_lines(trace: TraceData) -> list[str]:
    """The modules whose calls took most time, with what they contain."""
    events = trace.events
    calls = np.flatnonzero(events["kind"] == EventKind.MODULE_CALL)
    if not len(calls):
        return []
    names, group = np.unique(events["name"][calls], return_inverse=True)
    took = np.bincount(group, weights=events["duration_ns"][calls].astype(np.float64))
    count = np.bincount(group)
    order = np.argsort(-took)[:_MOST_MODULES]
    return ["modules, with what they contain:"] + [
        f"  {trace.names[names[row]]}: {count[row]:,} calls, {time_text(int(took[row]))}"
        for row in order
    ]


def _memory_text(process: int) -> str:
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = dict(
            line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines()
        )
        kibibytes = int(fields["VmRSS"].split()[0])
        return f"{kibibytes >> 10:,} MiB resident"
    return "memory is not known"


class TypedKeys:
    """Of a terminal, each as it is typed; where there is no terminal, none ever are.

    Ctrl-C stays what it is. The terminal is left as it was.
    """

    def __init__(self, file: int = 0) -> None:
        self._file = file
        self._before: list[Any] | None = None

    def wait_for(self, keys: bytes, seconds: float) -> bool:
        """Wait for so long; True as soon as one of ``keys`` is typed, or the terminal is gone."""
        until_s = time.monotonic() + seconds
        while self._before is not None and (left_s := until_s - time.monotonic()) > 0:
            if not select.select([self._file], [], [], left_s)[0]:
                return False
            typed = b""
            with contextlib.suppress(OSError):
                typed = os.read(self._file, 100)
            if not typed or set(typed) & set(keys):
                return True
        time.sleep(max(until_s - time.monotonic(), 0))
        return False

    def __enter__(self) -> TypedKeys:
        with contextlib.suppress(OSError, termios.error):
            # A command in the background that changed the terminal would be stopped.
            if os.tcgetpgrp(self._file) == os.getpgrp():
                self._before = termios.tcgetattr(self._file)
                tty.setcbreak(self._file, termios.TCSANOW)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._before is not None:
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(self._file, termios.TCSANOW, self._before)
            self._before = None
