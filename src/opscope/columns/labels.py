"""What the small integer codes of a trace are called when a person reads them."""

from __future__ import annotations

from enum import IntEnum

from opscope.columns.codes import (
    DEVICE_NAMES,
    AllocationAction,
    CompilationKind,
    EventKind,
    GpuKind,
    Layout,
    LinkKind,
    OriginsKnownFrom,
    ParameterRole,
    RecordScope,
    Role,
    RuntimeApi,
    ScalarType,
    WaitsFor,
)
from opscope.columns.dtypes import TORCH_NAMES
from opscope.columns.schema import UNKNOWN_KIND


def _of(enum: type[IntEnum]) -> dict[int, str]:
    return {member.value: member.name.lower() for member in enum}


DEVICES: dict[int, str] = dict(enumerate(DEVICE_NAMES))
"""c10::DeviceType."""

LAYOUTS: dict[int, str] = _of(Layout)
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
    ("parameters", "role"): {
        role.value: role.name.lower().replace("_", " ") for role in ParameterRole
    },
    ("parameters", "dtype"): TORCH_NAMES,
    ("parameters", "device_type"): DEVICES,
    ("parameters", "layout"): LAYOUTS,
    ("gpu", "kind"): _of(GpuKind),
    ("gpu", "device_type"): DEVICES,
    ("runtime_calls", "api"): _of(RuntimeApi),
    ("gpu_memory", "action"): _of(AllocationAction),
    ("thread_samples", "waits_for"): _of(WaitsFor),
    ("compiled_sites", "known_from"): _of(OriginsKnownFrom),
    ("compilations", "kind"): _of(CompilationKind),
    ("links", "kind"): {
        LinkKind.FORWARD_BACKWARD.value: "forward to backward",
        LinkKind.COLLECTIVE.value: "between ranks",
    },
}
"""(table, column) to the text of each code. A code without a text is shown as its number."""
