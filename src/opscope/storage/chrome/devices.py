"""Device events of Chrome files, and device types."""

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

_NONE = (
    *("external_id", "counters", "peer_device", "target_device", "wait_on_stream"),
    "wait_on_cuda_event_record_corr_id",
)
"""Columns of which -1 says that there is nothing; of the others 0 does."""


def place_on_devices(collected: CollectedEvents) -> None:
    """Make activities of a device of the spans that the file has on one, and name its kind."""
    _move_spans(collected)
    gpu = collected.gpu
    if not len(gpu["kind"]):
        return
    _number_devices(collected)
    usual = file_device_type(collected.categories)
    labelled = [labelled_device_type(str(collected.labels.get(o, ""))) for o in collected.owners]
    of_owner = np.array([usual if one is None else one for one in labelled], dtype=np.int8)
    is_open = gpu["device_type"] == DeviceType.CUDA  # no category says more
    gpu["device_type"] = np.where(is_open, of_owner[gpu["process"]], gpu["device_type"])


def _number_devices(collected: CollectedEvents) -> None:
    """A number for each device: two processes may have devices of one number, or names alone.

    Who wrote the file may have put devices of several hosts, or parts of one, into processes of
    their own, each with a device 0.
    """
    gpu = collected.gpu
    code = gpu["process"].astype(np.int64) * 256 + gpu["device_index"] + 128
    found = [divmod(code, 256) for code in np.flatnonzero(np.bincount(code)).tolist()]
    given = {(owner, at - 128): _number(at - 128, collected.owners[owner]) for owner, at in found}
    of_number = {number: key for key, number in reversed(given.items())}
    free = (number for number in range(_LAST) if number not in of_number)
    index = gpu["device_index"]
    for key, number in given.items():
        is_taken = number == _UNKNOWN or of_number[number][0] != key[0]
        wanted = next(free, _LAST) if is_taken else number
        if wanted != key[1]:
            own = (gpu["process"] == key[0]) & (index == key[1])
            gpu["device_index"] = np.where(own, wanted, gpu["device_index"]).astype(np.int8)


def _number(given: int, owner: Any) -> int:
    """The number in the event, or else at the end of the name of its process."""
    match = _AT_END.search(str(owner)) if given == _UNKNOWN else None
    return int(match[0]) if match and int(match[0]) < _LAST else given


_AT_END = re.compile(r"\d+$")
_UNKNOWN, _LAST = -2, 127
"""What the reader gives a device without a number; the last that there is room for."""


def hardware_counters(collected: CollectedEvents, base: int) -> list[dict[str, Any]]:
    """Values of device counters in each range of NVIDIA's range profiler; mostly empty."""
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
    """Move spans of unknown categories to the device that their process is labelled as."""
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
    given: dict[str, Any] = {
        name: spans[name][rows] for name in ("name", "category", "start_ns", "duration_ns")
    }
    given["kind"] = np.full(len(rows), GpuKind.ANNOTATION)
    given["device_type"] = np.full(len(rows), DeviceType.CUDA)
    given["device_index"] = [integer(process, 0, 0, 127) for process, _ in labels]
    given["stream"] = [integer(thread, -1, -1, (1 << 31) - 1) for _, thread in labels]
    given["process"] = [owners.setdefault(process, len(owners)) for process, _ in labels]
    collected.owners = list(owners)
    return {
        name: _longer(column, given.get(name), len(rows), -1 if name in _NONE else 0)
        for name, column in gpu.items()
    }


def _longer(column: Any, given: Any, rows: int, otherwise: int) -> Any:
    if isinstance(column, ListColumn):
        more = np.full(rows, column.offsets[-1])
        return ListColumn(np.concatenate([column.offsets, more]), column.values)
    more = np.full(rows, otherwise) if given is None else np.asarray(given)
    return np.concatenate([column, more.astype(column.dtype)])
