"""Chrome events to growing columns, one call per event, in file order.

The columns hold integers only; what needs the whole file (order, parents, links, launches) is
left to ``assemble``.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable
from typing import Any

from opscope.trace.chrome.argument_columns import KNOWN_KEYS, ArgumentColumns
from opscope.trace.chrome.categories import (
    BESIDE,
    GPU_KINDS,
    LAUNCH_ARROWS,
    carried_gpu_category,
    carried_span_category,
    device_type,
    span_kind,
)
from opscope.trace.chrome.numbers import integer, nanoseconds
from opscope.trace.codes import OVERHEAD_NAMES
from opscope.trace.column import BYTES, DURATION
from opscope.trace.schema import AllocationAction, EventKind

LOOKUP_IDS = ("external_id", "correlation_id", "python_id", "python_parent_id")
"""Numbers by which events of one file name each other."""

_SPANS = ("thread", "name", "kind", "category", "start_ns", "duration_ns", "unfinished")
_SPAN_IDS = ("sequence_number", "forward_thread", *LOOKUP_IDS)
_ALLOCATIONS = ("thread", "action", "time_ns", "address", "size_bytes", "total_allocated_bytes",
                "total_reserved_bytes", "device_type", "device_index")  # fmt: skip
_GPU = ("kind", "name", "category", "start_ns", "duration_ns", "device_type", "device_index",
        "context", "stream", "correlation_id", "size_bytes", "external_id")  # fmt: skip
_GPU_ARGUMENTS = {
    "registers_per_thread": ("registers per thread", 0),
    "shared_memory_bytes": ("shared memory", 0),
    "graph": ("graph id", 0),
    "graph_node": ("graph node id", 0),
    "peer_device": ("fromDevice", -1),
    "target_device": ("toDevice", -1),
    "wait_on_stream": ("wait_on_stream", -1),
    "wait_on_cuda_event_record_corr_id": ("wait_on_cuda_event_record_corr_id", -1),
}
"""Further columns of ``gpu``: the argument each is, and its value where there is none."""
_OVERHEAD_COLUMNS = ("kind", "name", "start_ns", "duration_ns", "system_thread_id")
_OVERHEADS = {name: kind for kind, name in OVERHEAD_NAMES.items()}
_MARKS = ("Iteration Start: PyTorch Profiler", "Record Window End")
_INT32 = {"low": -(1 << 31), "high": (1 << 31) - 1}
_INT8 = {"low": -128, "high": 127}
_BYTES = {"low": BYTES["least"], "high": BYTES["most"]}


def _columns(names: tuple[str, ...]) -> dict[str, array[int]]:
    return {name: array("Q" if name == "address" else "q") for name in names}


class EventCollector:
    """Everything one file holds. It never raises.

    Attributes:
        texts: name to row of the name table.
        threads: (process, thread) as in the file, to row of ``threads``.
        skipped: how many events were left out, by reason.
        mended: how many names had to be mended before the file was JSON.
        marks: how many rows say where the profiler that wrote the file began and ended.
        launch_arrows: ids of ends of arrows from launches to what they launched.
        flows: ends of forward-backward arrows: id, thread, time, 1 for the target.
    """

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.threads: dict[tuple[Any, Any], int] = {}
        self.thread_names: dict[tuple[Any, Any], str] = {}
        self.processes: dict[Any, str] = {}
        self.spans = _columns(_SPANS + _SPAN_IDS)
        self.allocations = _columns(_ALLOCATIONS)
        self.gpu = _columns((*_GPU, *_GPU_ARGUMENTS))
        self.overheads = _columns(_OVERHEAD_COLUMNS)
        self.gpu_grids: list[tuple[list[int], list[int]]] = []
        self.flows = _columns(("id", "thread", "time_ns", "is_target"))
        self.arguments = ArgumentColumns(self.intern)
        self.skipped: Counter[str] = Counter()
        self.seen = 0
        self.mended = 0
        self.marks = 0
        self.launch_arrows = array("q")
        self._beside: dict[tuple[Any, Any], tuple[Any, Any]] = {}
        self._open: dict[int, list[int]] = {}
        self._handlers: dict[Any, Callable[[dict[str, Any]], None]] = {
            "X": self._complete,
            "B": self._begin,
            "E": self._end,
            "M": self._describe,
            **dict.fromkeys(("i", "I", "R"), self._instant),
            **dict.fromkeys(("s", "f"), self._flow),
        }

    def __call__(self, event: dict[str, Any]) -> None:
        """Take one event."""
        self.seen += 1
        phase = event["ph"]
        handler = self._handlers.get(phase) if isinstance(phase, str) else None
        if handler is None:
            self.skipped[f"phase {str(phase)[:20]!r}"] += 1
        else:
            handler(event)

    def intern(self, text: str) -> int:
        """The row of ``text`` in the name table."""
        return self.texts.setdefault(text, len(self.texts))

    def _thread(self, event: dict[str, Any]) -> int:
        key = _thread_key(event)
        key = self._beside.get(key, key)
        return self.threads.setdefault(key, len(self.threads))

    def _complete(self, event: dict[str, Any]) -> None:
        category = str(event.get("cat", "")).lower()
        start = nanoseconds(event.get("ts"))
        if start is None:
            self.skipped["no usable time"] += 1
        elif category in GPU_KINDS:
            self._gpu(event, GPU_KINDS[category], start)
        elif category == "trace":
            self.marks += 1
        elif category == "overhead" and str(event.get("name")) in _OVERHEADS:
            self._overhead(event, start)
        elif event.get("name") in ("[memory]", "[OutOfMemory]"):
            self._allocation(event, start)
        else:
            self._span(event, category, start, nanoseconds(event.get("dur")))

    def _span(self, event: dict[str, Any], category: str, start: int, duration: int | None) -> None:
        args = event.get("args")
        if not isinstance(args, dict):
            args = {}
        row = len(self.spans["thread"])
        kind, name = span_kind(category), str(event.get("name", ""))
        carried = carried_span_category(str(event.get("cat", "")), name)
        spans = self.spans
        spans["thread"].append(self._thread(event))
        spans["name"].append(self.intern(name))
        spans["kind"].append(kind)
        spans["category"].append(self.intern(carried) if carried else -1)
        spans["start_ns"].append(start)
        spans["duration_ns"].append(max(duration or 0, 0))
        spans["unfinished"].append(0)
        spans["sequence_number"].append(integer(args.get("Sequence number"), -1))
        spans["forward_thread"].append(integer(args.get("Fwd thread id"), 0, **_INT32))
        spans["external_id"].append(integer(args.get("External id"), -1))
        spans["correlation_id"].append(integer(args.get("correlation"), -1))
        spans["python_id"].append(integer(args.get("Python id"), -1))
        spans["python_parent_id"].append(integer(args.get("Python parent id"), -1))
        if kind == EventKind.OPERATOR or kind == EventKind.ANNOTATION:
            self.arguments.add(row, args)
            if kind == EventKind.OPERATOR and not KNOWN_KEYS.issuperset(args):
                self.arguments.add_keywords(row, args)

    def _begin(self, event: dict[str, Any]) -> None:
        start = nanoseconds(event.get("ts"))
        if start is None:
            self.skipped["no usable time"] += 1
            return
        self._open.setdefault(self._thread(event), []).append(len(self.spans["thread"]))
        self._span(event, str(event.get("cat", "")).lower(), start, 0)
        self.spans["unfinished"][-1] = 1

    def _end(self, event: dict[str, Any]) -> None:
        end = nanoseconds(event.get("ts"))
        rows = self._open.get(self._thread(event))
        if end is None or not rows:
            self.skipped["an end without a beginning"] += 1
            return
        row = rows.pop()
        self.spans["unfinished"][row] = 0
        duration = end - self.spans["start_ns"][row]
        self.spans["duration_ns"][row] = min(max(duration, 0), DURATION["most"])

    def _instant(self, event: dict[str, Any]) -> None:
        time = nanoseconds(event.get("ts"))
        if time is not None and event.get("name") in ("[memory]", "[OutOfMemory]"):
            self._allocation(event, time)
        elif event.get("name") in _MARKS:
            self.marks += 1
        else:
            self.skipped["instants that are not allocations"] += 1

    def _allocation(self, event: dict[str, Any], time: int) -> None:
        args = event.get("args")
        if not isinstance(args, dict):
            args = {}
        size = integer(args.get("Bytes"), 0, **_BYTES)
        action = AllocationAction.FREE if size < 0 else AllocationAction.ALLOCATE
        if event["name"] == "[OutOfMemory]":
            action = AllocationAction.OUT_OF_MEMORY
        columns = self.allocations
        columns["thread"].append(self._thread(event))
        columns["action"].append(action)
        columns["time_ns"].append(time)
        columns["address"].append(integer(args.get("Addr"), 0, 0, (1 << 64) - 1))
        columns["size_bytes"].append(size)
        columns["total_allocated_bytes"].append(integer(args.get("Total Allocated"), 0, **_BYTES))
        columns["total_reserved_bytes"].append(integer(args.get("Total Reserved"), 0, **_BYTES))
        columns["device_type"].append(integer(args.get("Device Type"), 0, **_INT8))
        columns["device_index"].append(integer(args.get("Device Id"), -1, **_INT8))

    def _gpu(self, event: dict[str, Any], kind: int, start: int) -> None:
        args = event.get("args")
        if not isinstance(args, dict):
            args = {}
        columns = self.gpu
        columns["kind"].append(kind)
        columns["name"].append(self.intern(str(event.get("name", ""))))
        carried = carried_gpu_category(str(event["cat"]))
        columns["category"].append(self.intern(carried) if carried else -1)
        columns["device_type"].append(device_type(carried.lower()))
        columns["start_ns"].append(start)
        columns["duration_ns"].append(max(nanoseconds(event.get("dur")) or 0, 0))
        columns["device_index"].append(integer(args.get("device", event.get("pid")), 0, **_INT8))
        columns["context"].append(integer(args.get("context"), 0, **_INT32))
        columns["stream"].append(integer(args.get("stream", event.get("tid")), 0, **_INT32))
        columns["correlation_id"].append(integer(args.get("correlation")))
        columns["size_bytes"].append(integer(args.get("bytes"), 0, **_BYTES))
        columns["external_id"].append(integer(args.get("External id"), -1))
        for name, (argument, default) in _GPU_ARGUMENTS.items():
            wide = name in ("graph", "graph_node", "wait_on_cuda_event_record_corr_id")
            bounds = {} if wide else _INT8 if name.endswith("device") else _INT32
            columns[name].append(integer(args.get(argument), default, **bounds))
        self.gpu_grids.append((_three(args.get("grid")), _three(args.get("block"))))

    def _overhead(self, event: dict[str, Any], start: int) -> None:
        columns = self.overheads
        columns["kind"].append(_OVERHEADS[event["name"]])
        columns["name"].append(self.intern(event["name"]))
        columns["start_ns"].append(start)
        columns["duration_ns"].append(max(nanoseconds(event.get("dur")) or 0, 0))
        columns["system_thread_id"].append(integer(event.get("tid"), -1))

    def _flow(self, event: dict[str, Any]) -> None:
        time = nanoseconds(event.get("ts"))
        category = str(event.get("cat"))
        if category in LAUNCH_ARROWS:
            self.launch_arrows.append(integer(event.get("id"), -1))
            return
        if category != "fwdbwd" or time is None:
            self.skipped[f"flow {category[:20]!r}"] += 1
            return
        self.flows["id"].append(integer(event.get("id"), -1))
        self.flows["thread"].append(self._thread(event))
        self.flows["time_ns"].append(time)
        self.flows["is_target"].append(event["ph"] == "f")

    def _describe(self, event: dict[str, Any]) -> None:
        args = event.get("args")
        name = args.get("name") if isinstance(args, dict) else None
        if isinstance(name, str) and event.get("name") == "thread_name":
            process, _ = key = _thread_key(event)
            self.thread_names[key] = name
            if isinstance(args, dict) and type(args.get(BESIDE)) is int:
                self._beside[key] = (process, args[BESIDE])
        elif isinstance(name, str) and event.get("name") == "process_name":
            self.processes[_thread_key(event)[0]] = name


def _thread_key(event: dict[str, Any]) -> tuple[Any, Any]:
    process, thread = event.get("pid"), event.get("tid")
    if isinstance(process, list | dict) or isinstance(thread, list | dict):
        return (str(process), str(thread))
    return (process, thread)


def _three(value: Any) -> list[int]:
    """A launch size; empty where there is none."""
    if not isinstance(value, list):
        return []
    return [integer(item, 0, 0) for item in value[:3]]
