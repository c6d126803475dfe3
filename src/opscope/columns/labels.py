"""Names of the integer codes of a trace."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import DEVICE_NAMES, Layout, LinkKind, ParameterRole, RecordScope
from opscope.columns.dtypes import TORCH_NAMES
from opscope.columns.schema import TABLES, UNKNOWN_KIND


def _names(enum: type[IntEnum]) -> dict[int, str]:
    return {member.value: member.name.lower() for member in enum}


DEVICES: dict[int, str] = dict(enumerate(DEVICE_NAMES))  # names by c10::DeviceType
LAYOUTS: dict[int, str] = _names(Layout)  # names by c10::Layout

_TORCH_CODES = {"dtype": TORCH_NAMES, "device_type": DEVICES, "layout": LAYOUTS}

LABELS: dict[tuple[str, str], dict[int, str]] = {
    (table, column.name): _names(column.codes) if column.codes else _TORCH_CODES[column.name]
    for table, schema in TABLES.items()
    for column in schema.columns
    if column.codes or column.name in _TORCH_CODES
}
"""(table, column) to the text of each code; views show a code without a text as a number."""

LABELS["events", "kind"][UNKNOWN_KIND] = "unknown"
LABELS["events", "scope"] = _names(RecordScope)
LABELS["parameters", "role"] = {
    role.value: role.name.lower().replace("_", " ") for role in ParameterRole
}
LABELS["links", "kind"] = {
    LinkKind.FORWARD_BACKWARD.value: "forward to backward",
    LinkKind.COLLECTIVE.value: "between ranks",
}

Codes = npt.NDArray[np.int8]


def device_name(device_type: int, device_index: int) -> str:
    """``cpu``, ``cuda:0``, ...; without a number if the index is -1."""
    name = DEVICES.get(device_type, f"device type {device_type}")
    return name if device_index < 0 else f"{name}:{device_index}"


def device_title(device: str) -> str:
    """Device name for display: ``CPU``, ``CUDA 0``."""
    return device.upper().replace(":", " ")


def device_names(device_type: Codes, device_index: Codes) -> list[str]:
    """Names of all devices in two columns, in order of their codes."""
    return [device_name(*pair) for pair in _pairs(device_type, device_index)]


def rows_on_device(device_type: Codes, device_index: Codes, device: str) -> npt.NDArray[np.bool_]:
    """Which rows are on ``device``, shape (rows,). ``cuda`` means ``cuda:0``."""
    result = np.zeros(len(device_type), dtype=np.bool_)
    for kind, index in _pairs(device_type, device_index):
        if device_name(kind, index) in (device, f"{device}:0"):
            result |= (device_type == kind) & (device_index == index)
    return result


def _pairs(device_type: Codes, device_index: Codes) -> list[tuple[int, int]]:
    # One small number per device, which sorts fast.
    codes = (device_type.astype(np.int16) << 8) | device_index.astype(np.uint8)
    devices = np.unique(codes)
    return list(zip((devices >> 8).tolist(), devices.astype(np.int8).tolist(), strict=True))
