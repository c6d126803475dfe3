"""Memory over time by category, in the files of torch's ``export_memory_timeline``.

The suffix of the path selects the file: ``.raw.json.gz`` has every action, ``.html`` and ``.png``
are pictures, anything else (``.json``, ``.json.gz``) has the bytes per category over time.
"""

from __future__ import annotations

import html
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.analysis.memory.categories import memory_accounts
from opscope.analysis.memory.counters import check_memory_recorded
from opscope.analysis.memory.data_flow import (
    SHOWN_CATEGORIES,
    Action,
    Category,
    MemoryTimeline,
    SizesByCategory,
    sizes_by_category,
)
from opscope.analysis.memory.over_time import extreme_positions
from opscope.columns.trace_data import TraceData
from opscope.errors import MissingDependencyError, UsageError
from opscope.export.format import Format
from opscope.export.output_file import to_json, write_file

_ROWS_PER_BLOCK = 50_000
_KIB, _MIB, _GIB = 2**10, 2**20, 2**30


def write_memory_timeline(
    trace: TraceData, path: str | os.PathLike[str], device: str | None = None
) -> None:
    """Write the memory per category of one device over time.

    - ``.json`` and ``.json.gz``: ``[times, sizes]``, with times in microseconds and per time a row
      of 9 numbers: 0, then bytes of parameters, optimizer state, inputs, temporaries, activations,
      gradients, autograd detail, unknown.
    - ``.raw.json.gz``: a row (time in nanoseconds or -1, action, bytes, category) per action.
    - ``.html``: a page that loads nothing; ``.png``: a picture, drawn with matplotlib.

    Args:
        trace: recorded with ``record_shapes`` and ``profile_memory``.
        device: such as ``cuda:0``; by default the first accelerator with memory events, or the CPU.

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
            "The recording has no memory events. Record a part of the program that allocates "
            "memory."
        )
    return next((device for device in devices if device != "cpu"), devices[0])


def _blocks(sizes: SizesByCategory) -> Iterator[bytes]:
    """``[times, sizes]`` in blocks, formatted as by ``json.dump``."""
    yield f"[{json.dumps(sizes.time_us)}, [".encode()
    padded = np.pad(sizes.size_bytes, ((0, 0), (1, 0)))
    for start in range(0, len(padded), _ROWS_PER_BLOCK):
        rows = json.dumps(padded[start : start + _ROWS_PER_BLOCK].tolist())
        yield f"{', ' if start else ''}{rows[1:-1]}".encode()
    yield b"]]"


def _raw_blocks(timeline: MemoryTimeline) -> Iterator[bytes]:
    """Actions formatted as by ``json.dump``; a new version is one free and one allocation."""
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
            "A .png file of the memory timeline needs matplotlib, which is not installed. Run: "
            "pip install matplotlib, or write an .html file, which needs no package."
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


def _unit(peak_bytes: int) -> tuple[int, str]:
    for unit, name in ((_GIB, "GiB"), (_MIB, "MiB"), (_KIB, "KiB")):
        if peak_bytes >= unit:
            return unit, name
    return 1, "bytes"


def _write_recorded(trace: TraceData, path: str | os.PathLike[str]) -> None:
    """Like ``write_memory_timeline``, but raise UsageError if no memory was recorded."""
    check_memory_recorded(trace)
    write_memory_timeline(trace, path)


FORMAT = Format(
    name="memory-timeline",
    suffixes=(".memory.json", ".memory.json.gz", ".memory.html", ".raw.json.gz"),
    help=(
        "memory by category over time, in the files of torch's "
        "export_memory_timeline; .html is a page and .png a picture"
    ),
    write=_write_recorded,
)

COLORS = {
    Category.PARAMETER: "#1b7f4d",
    Category.OPTIMIZER_STATE: "#d9a021",
    Category.INPUT: "#3a3f47",
    Category.TEMPORARY: "#9b72cf",
    Category.ACTIVATION: "#d94f4f",
    Category.GRADIENT: "#2f62c9",
    Category.AUTOGRAD_DETAIL: "#5ea9e6",
    Category.UNKNOWN: "#a8adb5",
}

_INTERVALS = 1000
_WIDTH, _HEIGHT = 1000, 400


def label(category: Category) -> str:
    """Category as text for a legend: ``Optimizer state``."""
    return category.name.capitalize().replace("_", " ")


def draw_html(sizes: SizesByCategory, device: str) -> str:
    """An HTML page that loads nothing: stacked areas, with numbers under the mouse.

    Long timelines are reduced to the highest and lowest time of each interval, so no peak is lost.
    """
    time = np.array(sizes.time_us, dtype=np.int64)
    total = sizes.size_bytes.sum(axis=1)
    positions = extreme_positions(time, total, _INTERVALS)
    time, held = time[positions] - time[0], sizes.size_bytes[positions]
    stacked = np.cumsum(np.pad(held, ((0, 0), (1, 0))), axis=1)
    peak_bytes = max(int(total.max(initial=0)), 1)
    x = time * _WIDTH / max(int(time[-1]), 1)
    y = _HEIGHT * (1 - stacked / peak_bytes)
    areas = "\n".join(
        f'<path fill="{COLORS[category]}" d="{_area(x, y[:, i], y[:, i + 1])}"/>'
        for i, category in enumerate(SHOWN_CATEGORIES)
        if held[:, i].any()
    )
    data = {
        "time": time.tolist(),
        "held": held.T.tolist(),
        "names": [label(category) for category in SHOWN_CATEGORIES],
        "colors": [COLORS[category] for category in SHOWN_CATEGORIES],
        "most": peak_bytes,
    }
    page = Path(__file__).with_name("memory_page.html").read_text(encoding="utf-8")
    filled = {
        "DEVICE": html.escape(device),
        "AREAS": areas,
        "WIDTH": str(_WIDTH),
        "HEIGHT": str(_HEIGHT),
        "DATA": to_json(data),
    }
    return re.sub("@([A-Z]+)@", lambda placeholder: filled[placeholder[1]], page)


Line = npt.NDArray[np.float64]


def _area(x: Line, below: Line, above: Line) -> str:
    """The outline between two step curves: a value is constant until the next time."""
    upper = _steps(x, above)
    lower = _steps(x, below)[::-1]
    return "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in np.concatenate([upper, lower]).tolist())


def _steps(x: Line, y: Line) -> Line:
    points = np.column_stack([np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]])
    steps: Line = points
    return steps
