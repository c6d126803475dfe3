"""What a trace that a flight recorder wrote says of itself, before anything else."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from opscope.trace.trace import Trace


def describe_dump(trace: Trace) -> str:
    """Why it was made and when, and how far back it goes; empty for a trace that is no dump."""
    dump = trace.metadata.get("dump")
    if not isinstance(dump, dict):
        return ""
    at = datetime.fromtimestamp(dump["time_ns"] / 1e9, timezone.utc)
    why = f"{dump['reason']} ({dump['detail']})" if dump["detail"] else str(dump["reason"])
    return f"dump because of: {why}, at {at:%Y-%m-%d %H:%M:%S} UTC; {_held(dump)}"


def _held(dump: dict[str, Any]) -> str:
    held_s, asked_s = float(dump["held_s"]), float(dump["asked_s"])
    if held_s >= asked_s:
        return f"the last {held_s:.3g} s"
    return f"the last {held_s:.3g} s of the {asked_s:.3g} s asked for ({dump['limited_by']})"
