"""Device types as torch's enum where torch is loaded, as an equal-valued one where it is not."""

from __future__ import annotations

import sys
from enum import IntEnum
from functools import cache
from typing import Any


class DeviceType(IntEnum):
    """``c10::DeviceType``, for reading traces without torch."""

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20


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
