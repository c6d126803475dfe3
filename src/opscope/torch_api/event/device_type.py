"""Device types as torch's enum where torch is loaded, as an equal-valued one where it is not."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from opscope.columns.codes import DeviceType as DeviceType


def device_type(code: int) -> Any:
    """The device type with this value.

    torch is not imported for it: that takes over a second, and a script that compares with torch's
    enum has imported it.
    """
    torch = sys.modules.get("torch")
    enum = getattr(getattr(torch, "autograd", None), "DeviceType", DeviceType)
    return _member(enum, code)


@cache
def _member(enum: Any, code: int) -> Any:
    return getattr(enum, DeviceType(code).name, DeviceType(code))


def is_cpu(value: Any) -> bool:
    """Whether a device type, of either enum, is the CPU."""
    return getattr(value, "name", None) == "CPU"
