"""Memory over time by category, in the files of torch's ``export_memory_timeline``.

The suffix of the path chooses: ``.raw.json.gz`` has every single action, ``.html`` and ``.png`` a
picture, anything else (``.json``, ``.json.gz``) how much each category held when.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from opscope.analysis.memory.categories import memory_accounts
from opscope.analysis.memory.counters import check_memory_recorded
from opscope.analysis.memory.data_flow import (
    SHOWN_CATEGORIES,
    Action,
    MemoryTimeline,
    SizesByCategory,
    sizes_by_category,
)
from opscope.columns.trace_data import TraceData
from opscope.errors import MissingDependencyError, UsageError
from opscope.export.format import Format
from opscope.export.memory_picture import COLORS, draw_html, label
from opscope.export.output_file import write_file

_ROWS_PER_BLOCK = 50_000
_KIB, _MIB, _GIB = 2**10, 2**20, 2**30


def write_memory_timeline(
    trace: TraceData, path: str | os.PathLike[str], device: str | None = None
) -> None:
    """Write what each category of memory held on one device over time.

    - ``.json`` and ``.json.gz``: ``[times, sizes]``, with times in microseconds and per time a row
      of 9 numbers: 0, then bytes of parameters, optimizer state, inputs, temporaries, activations,
      gradients, autograd detail, unknown.
    - ``.raw.json.gz``: a row (time in nanoseconds or -1, action, bytes, category) per action.
    - ``.html``: a page that needs nothing else; ``.png``: a picture, drawn with matplotlib.

    Args:
        trace: recorded with ``record_shapes`` and ``profile_memory``.
        path: the file to write.
        device: such as ``cpu`` or ``cuda:0``; None is the first accelerator or, if nothing
            happened there, the CPU.

    Raises:
        UsageError: there are no memory events, none on ``device``, or the file cannot be written.
        MissingDependencyError: torch, or for ``.png`` matplotlib, is not installed.
    """
    name = os.fspath(path)
    timeline = memory_accounts(trace).timeline
    device = device or _default_device(timeline)
    timeline = timeline.on(device)
    if name.endswith("raw.json.gz"):
        write_file(path, _raw_blocks(timeline))
    elif name.endswith(".html"):
        write_file(path, [draw_html(sizes_by_category(timeline), device).encode()])
    elif name.endswith(".png"):
        write_file(path, [_png(sizes_by_category(timeline), device)])
    else:
        write_file(path, _blocks(sizes_by_category(timeline)))


def _default_device(timeline: MemoryTimeline) -> str:
    devices = timeline.devices
    if not devices:
        raise UsageError(
            "The recording has no memory events: nothing was allocated, freed or used in it. "
            "Record a part of the program that uses memory."
        )
    return next((device for device in devices if device != "cpu"), devices[0])


def _blocks(sizes: SizesByCategory) -> Iterator[bytes]:
    """``[times, sizes]`` as ``json.dump`` writes it, a part at a time."""
    yield f"[{json.dumps(sizes.time_us)}, [".encode()
    padded = np.pad(sizes.size_bytes, ((0, 0), (1, 0)))
    for start in range(0, len(padded), _ROWS_PER_BLOCK):
        rows = json.dumps(padded[start : start + _ROWS_PER_BLOCK].tolist())
        yield f"{', ' if start else ''}{rows[1:-1]}".encode()
    yield b"]]"


def _raw_blocks(timeline: MemoryTimeline) -> Iterator[bytes]:
    """Actions as ``json.dump`` writes them; a new version is a loss and a gain."""
    changes = timeline.action == Action.INCREMENT_VERSION
    row = np.repeat(np.arange(len(timeline)), 1 + changes)
    is_second = np.zeros(len(row), dtype=np.bool_)
    is_second[1:] = row[1:] == row[:-1]
    gains = (timeline.action[row] <= Action.CREATE) | is_second
    number = np.argsort(np.array(SHOWN_CATEGORIES))
    category = np.where(is_second, timeline.category_after[row], timeline.category[row])
    size = timeline.size_bytes[row]
    columns = (timeline.time_ns[row], timeline.action[row], np.where(gains, size, -size))
    rows = np.column_stack([*columns, number[category]])
    yield b"["
    for start in range(0, len(rows), _ROWS_PER_BLOCK):
        text = json.dumps(rows[start : start + _ROWS_PER_BLOCK].tolist())
        yield f"{', ' if start else ''}{text[1:-1]}".encode()
    yield b"]"


def _png(sizes: SizesByCategory, device: str) -> bytes:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(
            "A picture of the memory timeline is drawn with matplotlib, which is not installed. "
            "Install it with: pip install matplotlib, or write an .html file, which needs nothing."
        ) from error
    unit, name = _unit(int(sizes.size_bytes.sum(axis=1).max(initial=0)))
    stacked = np.cumsum(np.pad(sizes.size_bytes, ((0, 0), (1, 0))), axis=1) / unit
    time_ms = (np.array(sizes.time_us) - (sizes.time_us[0] if sizes.time_us else 0)) / 1000
    figure = Figure(figsize=(20, 12), dpi=80)
    canvas, axes = FigureCanvasAgg(figure), figure.subplots()
    for i, category in enumerate(SHOWN_CATEGORIES):
        below, above = stacked[:, i], stacked[:, i + 1]
        style: dict[str, Any] = {"color": COLORS[category], "linewidth": 0, "step": "post"}
        axes.fill_between(time_ms, below, above, label=label(category), **style)
    axes.margins(x=0)
    axes.set_xlabel("Time (ms)")
    axes.set_ylabel(f"Memory ({name})")
    axes.set_title(f"Memory of {device}; most at once: {stacked[:, -1].max():.2f} {name}")
    axes.legend(loc="upper right", reverse=True)
    file = io.BytesIO()
    canvas.print_png(file)
    return file.getvalue()


def _unit(most: int) -> tuple[int, str]:
    """A power of 1024 that leaves few digits of ``most`` bytes, and its name."""
    for unit, name in ((_GIB, "GiB"), (_MIB, "MiB"), (_KIB, "KiB")):
        if most >= unit:
            return unit, name
    return 1, "bytes"


def _write_recorded(trace: TraceData, path: str | os.PathLike[str]) -> None:
    """As ``write_memory_timeline``; what tensors in arguments show of memory is not the whole."""
    check_memory_recorded(trace)
    write_memory_timeline(trace, path)


FORMAT = Format(
    name="memory-timeline",
    suffixes=(".memory.json", ".memory.json.gz", ".memory.html", ".raw.json.gz"),
    help=(
        "memory by category over time, in the files of torch's "
        "export_memory_timeline; .html is a page, .png a picture (by matplotlib)"
    ),
    write=_write_recorded,
)
