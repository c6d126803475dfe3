"""Device activities of Chrome files, and device types."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import DeviceType, EventKind, GpuKind
from opscope.columns.schema import UNKNOWN_KIND
from opscope.columns.table import ListColumn
from opscope.storage.chrome.native_columns import CollectedEvents
from opscope.storage.chrome.vocabulary import file_device_type, integer, labelled_device_type

_MINUS_ONE_IF_NONE = (
    *("external_id", "counters", "peer_device", "target_device", "wait_on_stream"),
    "wait_on_cuda_event_record_corr_id",
)
"""Columns with -1 for no value; the others have 0."""


def place_on_devices(collected: CollectedEvents) -> None:
    """Move spans on devices to the device activities, and set the device types."""
    _move_spans(collected)
    gpu = collected.gpu
    if not len(gpu["kind"]):
        return
    _number_devices(collected)
    default = file_device_type(collected.categories)
    labelled = [labelled_device_type(str(collected.labels.get(o, ""))) for o in collected.owners]
    owner_type = np.array([default if kind is None else kind for kind in labelled], dtype=np.int8)
    is_generic = gpu["device_type"] == DeviceType.CUDA  # without a more specific category
    gpu["device_type"] = np.where(is_generic, owner_type[gpu["process"]], gpu["device_type"])


def _number_devices(collected: CollectedEvents) -> None:
    """Give each device a distinct number.

    A file may put devices of several hosts, or parts of one device, into separate processes, each
    with a device 0, or may have names only.
    """
    gpu = collected.gpu
    code = gpu["process"].astype(np.int64) * 256 + gpu["device_index"] + 128
    pairs = [divmod(code, 256) for code in np.flatnonzero(np.bincount(code)).tolist()]
    numbers = {(owner, at - 128): _number(at - 128, collected.owners[owner]) for owner, at in pairs}
    of_number = {number: key for key, number in reversed(numbers.items())}
    free = (number for number in range(_LAST) if number not in of_number)
    index = gpu["device_index"]
    for key, number in numbers.items():
        is_taken = number == _UNKNOWN or of_number[number][0] != key[0]
        new_number = next(free, _LAST) if is_taken else number
        if new_number != key[1]:
            rows = (gpu["process"] == key[0]) & (index == key[1])
            gpu["device_index"] = np.where(rows, new_number, gpu["device_index"]).astype(np.int8)


def _number(event_number: int, owner: Any) -> int:
    """The event's device number, else the number at the end of its process name."""
    match = _AT_END.search(str(owner)) if event_number == _UNKNOWN else None
    return int(match[0]) if match and int(match[0]) < _LAST else event_number


_AT_END = re.compile(r"\d+$")
_UNKNOWN, _LAST = -2, 127
"""Number of a device without one in the native reader; the largest device number."""


def hardware_counters(collected: CollectedEvents, base: int) -> list[dict[str, Any]]:
    """Device counters of each range of NVIDIA's range profiler; usually empty."""
    gpu, texts = collected.gpu, list(collected.texts)
    return [
        {
            "name": texts[gpu["name"][row]],
            "start_ns": int(gpu["start_ns"][row]) + base,
            "duration_ns": int(gpu["duration_ns"][row]),
            "device": int(gpu["device_index"][row]),
            "counters": json.loads(texts[gpu["counters"][row]], strict=False),
        }
        for row in np.flatnonzero(gpu["counters"] >= 0).tolist()
    ]


def _move_spans(collected: CollectedEvents) -> None:
    """Move spans of unknown categories to the device in their process's label."""
    if not collected.labels:
        return
    spans = collected.spans
    on_device = np.array(
        [
            labelled_device_type(str(collected.labels.get(process, ""))) is not None
            for process, _ in collected.threads
        ],
        dtype=np.bool_,
    )
    kind = spans["kind"]
    is_unknown = (kind == UNKNOWN_KIND) | (kind == EventKind.ANNOTATION)
    rows = np.flatnonzero(is_unknown & (spans["category"] >= 0) & on_device[spans["thread"]])
    if len(rows):
        collected.gpu = _with_activities(collected, rows)
        keep = np.ones(len(kind), dtype=np.bool_)
        keep[rows] = False
        collected.keep("spans", keep)


def _with_activities(collected: CollectedEvents, rows: npt.NDArray[np.int64]) -> dict[str, Any]:
    spans, gpu = collected.spans, collected.gpu
    labels = [collected.threads[thread] for thread in spans["thread"][rows].tolist()]
    owners = {owner: row for row, owner in enumerate(collected.owners)}
    added: dict[str, Any] = {
        name: spans[name][rows] for name in ("name", "category", "start_ns", "duration_ns")
    }
    added["kind"] = np.full(len(rows), GpuKind.ANNOTATION)
    added["device_type"] = np.full(len(rows), DeviceType.CUDA)
    added["device_index"] = [integer(process, 0, 0, 127) for process, _ in labels]
    added["stream"] = [integer(thread, -1, -1, (1 << 31) - 1) for _, thread in labels]
    added["process"] = [owners.setdefault(process, len(owners)) for process, _ in labels]
    collected.owners = list(owners)
    return {
        name: _longer(column, added.get(name), len(rows), -1 if name in _MINUS_ONE_IF_NONE else 0)
        for name, column in gpu.items()
    }


def _longer(column: Any, values: Any, rows: int, default: int) -> Any:
    if isinstance(column, ListColumn):
        appended = np.full(rows, column.offsets[-1])
        return ListColumn(np.concatenate([column.offsets, appended]), column.values)
    appended = np.full(rows, default) if values is None else np.asarray(values)
    return np.concatenate([column, appended.astype(column.dtype)])
