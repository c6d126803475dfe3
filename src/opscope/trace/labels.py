"""What the small integer codes of a trace are called when a person reads them."""

from __future__ import annotations

from enum import IntEnum

from opscope.trace.dtypes import TORCH_NAMES
from opscope.trace.schema import (
    UNKNOWN_KIND,
    AllocationAction,
    EventKind,
    RecordScope,
    Role,
    ScalarType,
)


def _of(enum: type[IntEnum]) -> dict[int, str]:
    return {member.value: member.name.lower() for member in enum}


DEVICES: dict[int, str] = {
    0: "cpu",
    1: "cuda",
    2: "mkldnn",
    6: "hip",
    8: "msnpu",
    9: "xla",
    10: "vulkan",
    11: "metal",
    12: "xpu",
    13: "mps",
    14: "meta",
    15: "hpu",
    17: "lazy",
    18: "ipu",
    19: "mtia",
    20: "privateuseone",
}
"""c10::DeviceType."""

LAYOUTS: dict[int, str] = {
    0: "strided",
    1: "sparse_coo",
    2: "sparse_csr",
    3: "mkldnn",
    4: "sparse_csc",
    5: "sparse_bsr",
    6: "sparse_bsc",
    7: "jagged",
}
"""c10::Layout."""

LABELS: dict[tuple[str, str], dict[int, str]] = {
    ("events", "kind"): {**_of(EventKind), UNKNOWN_KIND: "unknown"},
    ("events", "scope"): _of(RecordScope),
    ("tensors", "role"): _of(Role),
    ("tensors", "dtype"): TORCH_NAMES,
    ("tensors", "device_type"): DEVICES,
    ("tensors", "layout"): LAYOUTS,
    ("scalars", "role"): _of(Role),
    ("scalars", "type"): _of(ScalarType),
    ("allocations", "action"): _of(AllocationAction),
    ("allocations", "device_type"): DEVICES,
    ("parameters", "role"): {0: "parameter", 1: "gradient", 2: "optimizer state"},
    ("parameters", "dtype"): TORCH_NAMES,
    ("parameters", "device_type"): DEVICES,
    ("parameters", "layout"): LAYOUTS,
    ("gpu", "kind"): {0: "kernel", 1: "copy", 2: "set", 3: "synchronisation", 4: "annotation"},
    ("gpu", "device_type"): DEVICES,
    ("runtime_calls", "api"): {0: "runtime", 1: "driver"},
    ("gpu_memory", "action"): _of(AllocationAction),
    ("links", "kind"): {0: "forward to backward"},
}
"""(table, column) to the text of each code. A code without a text is shown as its number."""
