"""What a trace file says, by the shortest way: all of its JSON in memory, sums over its events."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

WORK = {
    **dict.fromkeys(("kernel", "concurrent_kernel", "mtia_ccp_events", "hpu_op"), "kernel"),
    **dict.fromkeys(("gpu_memcpy", "memcpy"), "copy"),
    **dict.fromkeys(("gpu_memset", "memset"), "set"),
}
OTHERS = {
    "cuda_sync": "synchronisation",
    "gpu_user_annotation": "device annotation",
    "cuda_profiler_range": "device annotation",
    **dict.fromkeys(("cpu_op", "operator"), "operator"),
    "python_function": "python",
}
_RUNTIME = ("_runtime", "_driver")
_MARKS = ("Trace",)
_OVERHEADS = ("overhead",)
_MEMORY = ("[memory]", "[OutOfMemory]")
_SHORT = 2**61


class NoTraceError(Exception):
    """What is in the file is no list of events."""


@dataclass
class Reading:
    """What a file says.

    Attributes:
        counts: events by what they are.
        busy_ns: by device, of the time in which it did any work.
        steps: names of steps.
    """

    counts: Counter[str] = field(default_factory=Counter)
    busy_ns: dict[str, int] = field(default_factory=dict)
    steps: set[str] = field(default_factory=set)


def read_plainly(path: Path) -> Reading:
    """Read a file.

    Raises:
        NoTraceError: it is none, or no JSON.
    """
    try:
        text = unpacked(path.read_bytes())
        value = json.loads(
            text.decode(json.detect_encoding(text)), parse_float=Decimal, strict=False
        )
    except (ValueError, RecursionError) as error:
        raise NoTraceError(str(error)) from error
    events = value.get("traceEvents") if isinstance(value, dict) else value
    if not isinstance(events, list):
        raise NoTraceError("no events")
    return _added_up([event for event in events if isinstance(event, dict) and "ph" in event])


def unpacked(data: bytes) -> bytes:
    """The one file in an archive, whatever that is."""
    if data.startswith(b"\x1f\x8b"):
        return unpacked(gzip.decompress(data))
    if data.startswith(b"BZh"):
        return unpacked(bz2.decompress(data))
    if data.startswith(b"\xfd7zXZ"):
        return unpacked(lzma.decompress(data))
    if data.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            return unpacked(archive.read(names[0])) if len(names) == 1 else b""
    if data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            files = [one for one in archive if one.isfile()]
            inside = archive.extractfile(files[0]) if len(files) == 1 else None
            return b"" if inside is None else unpacked(inside.read())
    return data


def _added_up(events: list[dict[str, Any]]) -> Reading:
    found = Reading()
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        what = _what(event)
        start = _nanoseconds(event.get("ts"))
        if not what or start is None:
            continue
        found.counts[what] += 1
        name = event.get("name")
        if isinstance(name, str) and name.startswith("ProfilerStep#") and "device" not in what:
            found.steps.add(name)
        if what in WORK.values():
            took = max(_nanoseconds(event.get("dur")) or 0, 0)
            spans[_device(event)].append((start, start + took))
    found.busy_ns = {device: union_ns(own) for device, own in spans.items()}
    return found


def _what(event: dict[str, Any]) -> str:
    """What a table of opscope calls it; empty for what becomes no row."""
    phase, category, name = event["ph"], str(event.get("cat", "")), event.get("name")
    if name in _MEMORY and phase in ("X", "i", "I", "R"):
        return "memory"
    if phase in ("B", "b", "S"):
        return "other span"
    if phase != "X" or category in _MARKS:
        return ""
    lower = category.lower()
    if lower in _OVERHEADS:
        return "overhead"
    if lower.endswith(_RUNTIME) or lower == "runtime":
        return "runtime"
    return WORK.get(lower) or OTHERS.get(lower) or "other span"


def _device(event: dict[str, Any]) -> str:
    arguments = event.get("args")
    number = arguments.get("device") if isinstance(arguments, dict) else None
    return str(event.get("pid") if number is None else number)


def _nanoseconds(given: Any) -> int | None:
    if isinstance(given, bool) or given is None:
        return None
    try:
        time = Decimal(given)
        return round(time * 1000) if abs(time) < _SHORT // 1000 else None
    except (InvalidOperation, TypeError, ValueError):
        return None


def union_ns(spans: Iterable[tuple[int, int]]) -> int:
    """How long at least one of them goes on."""
    total, reached = 0, None
    for start, end in sorted(spans):
        begin = start if reached is None else max(start, reached)
        total += max(end - begin, 0)
        reached = end if reached is None else max(reached, end)
    return total
