"""Devices by the names torch gives them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.columns.labels import DEVICES

Codes = npt.NDArray[np.int8]


def device_name(device_type: int, device_index: int) -> str:
    """``cpu``, ``cuda:0``, ...; -1 as index means none."""
    name = DEVICES.get(device_type, f"device type {device_type}")
    return name if device_index < 0 else f"{name}:{device_index}"


def device_title(device: str) -> str:
    """As shown to people: ``CPU``, ``CUDA 0``."""
    return device.upper().replace(":", " ")


def device_names(device_type: Codes, device_index: Codes) -> list[str]:
    """Names of all devices in two columns, in order of their codes."""
    return [device_name(*pair) for pair in _pairs(device_type, device_index)]


def rows_on_device(device_type: Codes, device_index: Codes, device: str) -> npt.NDArray[np.bool_]:
    """Which rows are on ``device``. A kind without a number, as in ``cuda``, means its first."""
    result = np.zeros(len(device_type), dtype=np.bool_)
    for kind, index in _pairs(device_type, device_index):
        if device_name(kind, index) in (device, f"{device}:0"):
            result |= (device_type == kind) & (device_index == index)
    return result


def _pairs(device_type: Codes, device_index: Codes) -> list[tuple[int, int]]:
    # One small number per device, because those are quick to sort.
    codes = (device_type.astype(np.int16) << 8) | device_index.astype(np.uint8)
    found = np.unique(codes)
    return list(zip((found >> 8).tolist(), found.astype(np.int8).tolist(), strict=True))
