"""The text before and after the events of a Chrome trace, as Kineto writes it.

The metadata of a recording has ``process_id``, ``process_name``, ``host_name``, ``trace_id``,
``start_ns``, ``end_ns``, ``device_properties``, Kineto's options (``with_stack``, ...) and
``user``, all optional. A trace read from Chrome JSON has the top-level keys of that file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from opscope.export.chrome.tracks import Track
from opscope.export.output_file import to_json
from opscope.storage.chrome.vocabulary import BESIDE, KEY
from opscope.timeline.window import Window, process_name_of

_OWN_KEYS = frozenset({
    "schemaVersion", "deviceProperties", "trace_id", "host_name", "displayTimeUnit",
    "baseTimeNanoseconds", "traceEvents", "traceName",
})  # fmt: skip
_FLAGS = ("with_stack", "profile_memory", "record_shapes", "with_modules", "with_flops")
_SPANS_SORT_INDEX = 0x20000000  # below every process
_GPU_SORT_INDEX = 5_000_000  # below every host process
_AFTER_LAST_NS = 1000
"""Readers add ts and dur as floats; the end of the file must not be before that sum."""


def header(metadata: Mapping[str, Any], window: Window, tracks: Iterable[Track]) -> str:
    """The text from the first brace to the rows that name processes and threads."""
    devices = metadata.get("device_properties", metadata.get("deviceProperties", []))
    top: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": devices}
    if metadata.get("trace_id"):
        top["trace_id"] = metadata["trace_id"]
    top |= {flag: 1 for flag in _FLAGS if metadata.get(flag)}
    for key, value in _added(metadata).items():
        if key in _FLAGS and top.get(key) == value:
            continue  # torch.profiler adds its options to what the user added
        top[f"user {key}" if key in _OWN_KEYS or key in top else key] = value
    if metadata.get("host_name"):
        top["host_name"] = metadata["host_name"]
    top |= {"displayTimeUnit": "ms", "baseTimeNanoseconds": window.base_ns}
    pairs = "".join(f"{to_json(str(key))}: {to_json(value)},\n" for key, value in top.items())
    rows = "".join(f"{row},\n" for row in _name_rows(metadata, window, list(tracks)))
    return f'{{\n{pairs}"traceEvents": [\n{rows}'


def _added(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Metadata that the program added."""
    if "imported_from" not in metadata:
        job = {key: metadata[key] for key in ("distributedInfo",) if metadata.get(key)}
        user = metadata.get("user")
        return {**job, **user} if isinstance(user, dict) else job
    ours = _OWN_KEYS | {"imported_from", "process_names", "otherData", *_FLAGS}
    return {key: value for key, value in metadata.items() if key not in ours}


def footer(window: Window) -> str:
    """The last four rows, at the positions that readers expect, and the end of the list."""
    start = window.microseconds(window.start_ns)
    end = window.microseconds(window.end_ns + _AFTER_LAST_NS)
    microseconds, nanoseconds = divmod(window.end_ns - window.start_ns, 1000)
    return (
        '{"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans",'
        f'"tid":"PyTorch Profiler","ts":{start},"dur":{microseconds}.{nanoseconds:03d},'
        '"args":{"Op count":0}},\n'
        f'{{"ph":"M","name":"process_sort_index","ts":{start},"pid":"Spans","tid":0,'
        f'"args":{{"sort_index":{_SPANS_SORT_INDEX}}}}},\n'
        '{"ph":"i","s":"g","name":"Iteration Start: PyTorch Profiler","pid":"Traces",'
        f'"tid":"Trace PyTorch Profiler","ts":{start}}},\n'
        '{"ph":"i","s":"g","name":"Record Window End","pid":"","tid":"",'
        f'"ts":{end}}}\n'
        "],"
    )


def end_of_file(trace_name: str, of_ours: Mapping[str, Any]) -> str:
    """The text after the rows, with ``of_ours`` if it is not empty."""
    ours = f"{to_json(KEY)}: {to_json(of_ours)},\n" if of_ours else ""
    return f'{ours}"traceName": {to_json(trace_name)}\n}}\n'


def _name_rows(metadata: Mapping[str, Any], window: Window, tracks: list[Track]) -> Iterator[str]:
    time = window.microseconds(window.start_ns)

    def row(name: str, pid: int, tid: int, key: str, value: str | int, more: str = "") -> str:
        return (
            f'{{"ph":"M","name":"{name}","ts":{time},"pid":{pid},"tid":{tid},'
            f'"args":{{"{key}":{to_json(value)}{more}}}}}'
        )

    for pid, device in dict.fromkeys((track.pid, track.device) for track in tracks):
        on_host = device < 0
        yield row(
            "process_name", pid, 0, "name", process_name_of(metadata, pid if on_host else None)
        )
        yield row("process_labels", pid, 0, "labels", "CPU" if on_host else f"GPU {device}")
        sort_index = pid if on_host else _GPU_SORT_INDEX + device
        yield row("process_sort_index", pid, 0, "sort_index", sort_index)
    for track in tracks:
        beside = f',"{BESIDE}":{track.beside}' if track.beside >= 0 else ""
        yield row("thread_name", track.pid, track.tid, "name", track.name, beside)
        yield row("thread_sort_index", track.pid, track.tid, "sort_index", track.sort_index)
