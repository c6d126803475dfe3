"""A memory timeline as one HTML page: the areas of all categories, and the numbers under the mouse.

The page loads nothing. Long timelines are thinned out to the highest and lowest moments of every
stretch, so that no peak is lost.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from opscope.analysis.memory.data_flow import SHOWN_CATEGORIES, Category, SizesByCategory
from opscope.analysis.memory.over_time import extreme_positions
from opscope.export.json_text import to_json

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

_STRETCHES = 1000
_WIDTH, _HEIGHT = 1000, 400


def label(category: Category) -> str:
    """As a legend shows it: ``Optimizer state``."""
    return category.name.capitalize().replace("_", " ")


def draw_html(sizes: SizesByCategory, device: str) -> str:
    """The page, as text."""
    time = np.array(sizes.time_us, dtype=np.int64)
    total = sizes.size_bytes.sum(axis=1)
    chosen = extreme_positions(time, total, _STRETCHES)
    time, held = time[chosen] - time[0], sizes.size_bytes[chosen]
    stacked = np.cumsum(np.pad(held, ((0, 0), (1, 0))), axis=1)
    most = max(int(total.max(initial=0)), 1)
    x = time * _WIDTH / max(int(time[-1]), 1)
    y = _HEIGHT * (1 - stacked / most)
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
        "most": most,
    }
    page = Path(__file__).with_name("memory_page.html").read_text(encoding="utf-8")
    filled = {
        "DEVICE": html.escape(device),
        "AREAS": areas,
        "WIDTH": str(_WIDTH),
        "HEIGHT": str(_HEIGHT),
        "DATA": to_json(data),
    }
    return re.sub("@([A-Z]+)@", lambda place: filled[place[1]], page)


Line = npt.NDArray[np.float64]


def _area(x: Line, below: Line, above: Line) -> str:
    """The outline between two lines of steps: what is held stays until the next time."""
    forth = _steps(x, above)
    back = _steps(x, below)[::-1]
    return "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in np.concatenate([forth, back]).tolist())


def _steps(x: Line, y: Line) -> Line:
    points = np.column_stack([np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]])
    steps: Line = points
    return steps
