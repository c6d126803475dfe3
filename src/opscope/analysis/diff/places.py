"""Places, which identify calls across recordings: module, operator, shapes, phase, line.

None of it depends on one recording: lines are identified by their text, so a moved line stays the
same; files by name without folders; addresses are left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from opscope.analysis.sites import Sites
from opscope.analysis.torch_listing.rows import plain_shapes
from opscope.columns.codes import EventKind
from opscope.columns.location import Location, line_texts
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.listing import TorchListing, averaged_name
from opscope.timeline.module_attribution import attribute_to_modules
from opscope.timeline.phases import PHASE_NAMES, find_phases
from opscope.timeline.signatures import first_of_each, mix, shape_signatures
from opscope.timeline.tree.arguments import Arguments
from opscope.timeline.tree.frame_text import own_texts


class PlaceKeys(str, Enum):
    """The recorded properties that identify a place."""

    MODULE = "module"
    SHAPES = "shapes"
    LINE = "line"


class CallPlace(NamedTuple):
    """Place of compared calls in a program; fields are empty if unknown or none."""

    module: str  # path of the nn.Module, as in ``blocks.3.mlp.0``
    operator: str  # operator, function or other name
    shapes: str = ""  # shapes of arguments, ``[64, 128], [256, 128]``
    phase: str = ""  # phase of the step
    line: str = ""  # source line, ``train.py: loss = net(x)``
    beside: bool = False  # whether it ran on another thread than the steps


@dataclass(frozen=True, eq=False)
class Placed:
    """Places of a trace's events."""

    places: list[CallPlace]  # unique places
    row: Values  # row in ``places`` of every event. Shape (events,)


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_FRAME = re.compile(r"^(?:.*[/\\])?([^/\\]+)\(\d+\): ")


def recorded_parts(trace: TraceData) -> frozenset[PlaceKeys]:
    """Properties that can identify places of a trace."""
    kinds = np.bincount(trace.events["kind"], minlength=len(EventKind))
    calls = kinds[EventKind.PYTHON_CALL] + len(trace.table("operator_calls"))
    found = {
        PlaceKeys.MODULE: kinds[EventKind.MODULE_CALL] > 0,
        PlaceKeys.SHAPES: len(trace.table("tensors")) > 0,
        PlaceKeys.LINE: calls > 0,
    }
    return frozenset(part for part, there in found.items() if there)


def place_calls(trace: TraceData, beside: Flags, parts: Iterable[PlaceKeys]) -> Placed:
    """Place of every event, identified by ``parts``."""
    parts = frozenset(parts)
    label, texts = _names(trace)
    module, paths = _modules(trace, PlaceKeys.MODULE in parts)
    phase = find_phases(trace).phase.astype(np.int64)
    line, lines = _lines(trace, PlaceKeys.LINE in parts)
    shapes = (
        shape_signatures(trace)
        if PlaceKeys.SHAPES in parts
        else np.zeros(len(label), dtype=np.uint64)
    )
    key = mix(label) ^ shapes
    for column in (module, phase, line, beside.astype(np.int64)):
        key = mix(mix(key) ^ mix(column + 1))
    row, first = first_of_each(key)
    arguments = Arguments(trace)
    places = [
        CallPlace(
            paths[module[event]],
            texts[label[event]],
            shapes_text(arguments, event) if shapes[event] else "",
            PHASE_NAMES[phase[event]] if phase[event] >= 0 else "",
            lines[line[event]],
            bool(beside[event]),
        )
        for event in first.tolist()
    ]
    return _each_once(places, row)


def comparable_name(name: str) -> str:
    """A name without addresses, folders and line numbers, which differ between runs."""
    name = _ADDRESS.sub("", averaged_name(name))
    return _FRAME.sub(r"\1: ", name)


def shapes_text(arguments: Arguments, event: int) -> str:
    """Shapes of an event's inputs, without empty ones at the end."""
    shapes = plain_shapes(arguments.inputs(event))
    while shapes and not shapes[-1]:
        shapes.pop()
    return ", ".join(map(str, shapes))


def _each_once(places: list[CallPlace], row: Values) -> Placed:
    """Merge equal places, such as functions of one name in two folders."""
    rows: dict[CallPlace, int] = {}
    number = [rows.setdefault(place, len(rows)) for place in places]
    merged = np.array(number, dtype=np.int64)[row] if number else row
    return Placed(list(rows), merged)


def _names(trace: TraceData) -> tuple[Values, list[str]]:
    """Row of every event in the names of operators, and the names; module calls by class."""
    label, texts = own_texts(trace)
    texts = [comparable_name(text) for text in texts]
    found = attribute_to_modules(trace)
    calls = trace.events["kind"] == EventKind.MODULE_CALL
    named = np.where(calls, len(texts) + found.path, label).astype(np.int64)
    return named, [*texts, *(f"{name}()" for name in found.classes)]


def _modules(trace: TraceData, known: bool) -> tuple[Values, list[str]]:
    """Row of every event in the names of modules, and the names; the last, -1, is for none."""
    if not known:
        return np.full(len(trace.events), -1, dtype=np.int64), [""]
    found = attribute_to_modules(trace)
    return found.path.astype(np.int64), [*(".".join(path) for path in found.paths), ""]


def _lines(trace: TraceData, known: bool) -> tuple[Values, list[str]]:
    """Row of every event in the texts of lines, and the texts; the last, -1, is for none."""
    if not known:
        return np.full(len(trace.events), -1, dtype=np.int64), [""]
    frame, line = Sites(TorchListing(trace)).at
    key = np.where(frame >= 0, frame * (1 << 24) + np.clip(line, -1, (1 << 24) - 2) + 1, -1)
    row, first = first_of_each(key.astype(np.uint64))
    texts, labels = line_texts(trace), []
    for event in first.tolist():
        place = Location.at(trace, int(frame[event]), int(line[event]))
        text = place.source_text(texts) or f"in {place.function}"
        labels.append(f"{os.path.basename(place.file)}: {text}" if frame[event] >= 0 else "")
    return row, labels
