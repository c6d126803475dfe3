"""Text of Python calls, in torch's form ``file(line): function``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.columns.schema import EventKind
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Flags, Rows, Values

MODULE_PREFIX = "nn.Module: "
PYTHON_KINDS = (
    EventKind.PYTHON_CALL,
    EventKind.C_CALL,
    EventKind.MODULE_CALL,
    EventKind.OPTIMIZER_CALL,
)
"""Kinds that are frames of a Python stack."""


def python_events(trace: TraceData) -> Flags:
    """Which events are frames of a Python stack. Shape (events,)."""
    return is_python(trace.events)


def is_python(events: Table) -> Flags:
    """Which rows of an events table are frames of a Python stack. Shape (events,)."""
    of_kind = np.zeros(256, dtype=np.bool_)  # by kind, including unknown kinds of a newer opscope
    of_kind[list(PYTHON_KINDS)] = True
    found: Flags = of_kind[events["kind"]]
    return found


@derived
def event_texts(trace: TraceData) -> tuple[Rows, list[str]]:
    """Displayed text of each event, as (row in texts, texts).

    The text is the event's name; module calls get torch's prefix, and calls recorded only by frame
    get the frame's text. Shape (events,); equal texts have equal rows. Cached for each trace.
    """
    events, names = trace.events, len(trace.names)
    # Names come first, then those of modules, nothing at all, and frames.
    keys = events["name"] + 1
    keys[np.flatnonzero(events["kind"] == EventKind.MODULE_CALL)] += names + 1
    if events["name"].min(initial=0) < 0:
        unnamed = np.flatnonzero(events["name"] < 0)
        keys[unnamed] = _frames(trace)[unnamed] + (2 * names + 3)
    is_used = np.zeros(2 * names + 3 + len(trace.table("frames")), dtype=np.bool_)
    is_used[keys] = True
    used = np.flatnonzero(is_used)
    rows: dict[str, int] = {}
    row_of_key = np.zeros(int(used.max(initial=-1)) + 1, dtype=np.int32)
    for key in used.tolist():
        row_of_key[key] = rows.setdefault(_text(trace, key, names + 1), len(rows))
    label = row_of_key[keys]
    label.flags.writeable = False
    return label, list(rows)


def own_texts(trace: TraceData) -> tuple[Rows, list[str]]:
    """:func:`event_texts` for opscope's own views, with modules named as in the program."""
    label, texts = event_texts(trace)
    names = module_names(trace)
    shown = [names[name].text if (name := _module_of(text)) in names else text for text in texts]
    rows: dict[str, int] = {}
    number = np.array([rows.setdefault(text, len(rows)) for text in shown], dtype=np.int32)
    return (number[label] if len(number) else label), list(rows)


@dataclass(frozen=True)
class ModuleName:
    """Names of a module."""

    path: str  # ``blocks.3.mlp.0``; empty for the outermost module, or if unknown
    class_name: str  # ``Linear``
    numbered: str  # class and number, ``Linear_22``

    @property
    def text(self) -> str:
        """``blocks.3.mlp.0 (Linear)``, or class and number."""
        return f"{self.path} ({self.class_name})" if self.path else self.numbered


def module_names(trace: TraceData) -> dict[str, ModuleName]:
    """Names of all modules by class and number."""
    table, names = trace.table("modules"), trace.names
    columns = (table[column].tolist() for column in ("path", "class_name", "name"))
    found = (
        ModuleName(names[path], names[class_name], names[name])
        for path, class_name, name in zip(*columns, strict=True)
    )
    return {name.numbered: name for name in found}


def _module_of(text: str) -> str | None:
    return text.removeprefix(MODULE_PREFIX) if text.startswith(MODULE_PREFIX) else None


def frame_text(trace: TraceData, frame: int) -> str:
    """Text of a row of ``frames``; only the name for C functions, which have no line."""
    frames, names = trace.table("frames"), trace.names
    function, line = names[frames["function"][frame]], int(frames["line"][frame])
    file = names[frames["file"][frame]]
    return f"{file}({line}): {function}" if file and line >= 0 else function


def _text(trace: TraceData, key: int, size: int) -> str:
    if key >= 2 * size:
        frame = key - 2 * size - 1
        return frame_text(trace, frame) if frame >= 0 else ""
    if key < size:
        return trace.names[key - 1]
    return MODULE_PREFIX + trace.names[key - size - 1].removeprefix(MODULE_PREFIX)


def _frames(trace: TraceData) -> Values:
    """Row in frames of each event, -1 for none."""
    calls = trace.table("python_calls")
    frame = np.full(len(trace.events), -1, dtype=np.int64)
    frame[calls["event"]] = calls["frame"]
    return frame
