"""torch's enumerations as the numbers its C++ side uses, which the recorder stores."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from opscope.columns.codes import DEVICE_NAMES, LAYOUT_NAMES
from opscope.columns.dtypes import TORCH_NAMES


@lru_cache(maxsize=256)
def dtype_code(dtype: Any) -> int:
    """``c10::ScalarType`` of a ``torch.dtype``; -1 if it is newer than this table."""
    name = str(dtype).removeprefix("torch.")
    return next((code for code, known in TORCH_NAMES.items() if known == name), -1)


@lru_cache(maxsize=64)
def device_type_code(device_type: str) -> int:
    """``c10::DeviceType`` of a device's ``type``; a renamed PrivateUse1 backend counts as that."""
    known = device_type if device_type in DEVICE_NAMES else "privateuseone"
    return DEVICE_NAMES.index(known)


@lru_cache(maxsize=64)
def layout_code(layout: Any) -> int:
    """``c10::Layout`` of a ``torch.layout``."""
    name = str(layout).removeprefix("torch.")
    return LAYOUT_NAMES.index(name) if name in LAYOUT_NAMES else -1
