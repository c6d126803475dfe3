"""JSON that every reader accepts, also inside a <script> element."""

from __future__ import annotations

import json
import math
from typing import Any


def to_json(value: Any) -> str:
    """``value`` as one line of ASCII JSON; what JSON has no number for becomes its text."""
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value))
    return text.replace("</", "<\\/")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return value
