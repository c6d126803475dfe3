"""Tables of device activity; ``columns.schema`` has the others and the conventions.

The native decoder delivers them before events are known. ``recording/gpu/events.py`` fills in the
references to events, from the ``extra`` columns.
"""

from __future__ import annotations

from opscope.columns.codes import AllocationAction, GpuKind, RuntimeApi
from opscope.columns.column import (
    DURATION,
    EVENT,
    NAME,
    NO_EVENT,
    SIZE,
    TIME,
    Column,
    Delivered,
    TableSchema,
)

_TEXT = {**NAME, "delivered": Delivered.NEVER}
_SYSTEM_THREAD = Column("system_thread_id", "int64", "as in threads")

GPU = TableSchema(
    "gpu",
    "one activity of a device: kernel, copy, set or synchronisation",
    (
        Column(
            "kind",
            "uint8",
            "0 kernel, 1 copy, 2 set, 3 synchronisation, 4 annotation",
            codes=GpuKind,
        ),
        Column("name", "int32", "row in names", **NAME),
        Column("category", "int32", "as in events; row in names", **_TEXT),
        Column("start_ns", "int64", "Unix time", **TIME),
        Column("duration_ns", "int64", "on the device", **DURATION),
        Column("device_type", "int8", "c10::DeviceType"),
        Column("device_index", "int8", "device"),
        Column("context", "int32", "device context"),
        Column("stream", "int32", "device stream; -1 for none or all"),
        Column("correlation_id", "int64", "of the runtime call that launched it"),
        Column("launch", "int32", "event that launched it", **NO_EVENT, delivered=Delivered.NEVER),
        Column("size_bytes", "int64", "copied or set", **SIZE),
        Column("grid", "list[int64]", "launch grid: x, y, z", least=0),
        Column("block", "list[int64]", "thread block: x, y, z", least=0),
        Column("registers_per_thread", "int32", "of a kernel"),
        Column("shared_memory_bytes", "int32", "of a kernel: static and dynamic, per block"),
        Column("queued_ns", "int64", "Unix time of queueing; 0 if not measured"),
        Column("submitted_ns", "int64", "Unix time of submission; 0 if not measured"),
        Column("graph", "int64", "CUDA graph it ran in; 0 none"),
        Column("graph_node", "int64", "node of that graph, see gpu_graph_nodes; 0 none"),
        Column(
            "capture",
            "int32",
            "event at the capture of the graph's node; -1: see gpu_graph_nodes",
            **NO_EVENT,
            delivered=Delivered.NEVER,
        ),
        Column("copy_kind", "uint8", "of a copy: CUpti_ActivityMemcpyKind"),
        Column("source_memory", "uint8", "of a copy: CUpti_ActivityMemoryKind"),
        Column(
            "destination_memory",
            "uint8",
            "of a copy or set: CUpti_ActivityMemoryKind of the target",
        ),
        Column("peer_device", "int8", "of a copy between devices: its source", -1),
        Column("target_device", "int8", "of a copy between devices: its target", -1),
        Column("sync_kind", "uint8", "of a synchronisation: CUpti_ActivitySynchronizationType"),
        Column(
            "wait_on_cuda_event_record_corr_id",
            "int64",
            "of a wait for a CUDA event: correlation_id of the call that recorded it; -1 unknown",
            -1,
        ),
        Column(
            "wait_on_stream", "int32", "of a wait for a CUDA event: stream that recorded it", -1
        ),
    ),
    extra=(Column("call", "int32", "row in runtime_calls that launched it; negative: none", -1),),
)

RUNTIME_CALLS = TableSchema(
    "runtime_calls",
    "details of a RUNTIME_CALL",
    (
        Column("event", "int32", "row in events", **EVENT, delivered=Delivered.NEVER),
        Column("correlation_id", "int64", "same as of the work it launched"),
        Column("api", "uint8", "0 runtime, 1 driver", codes=RuntimeApi),
        Column("function", "int32", "number of the function in that API (CUPTI's cbid)"),
        Column("result", "int32", "return value; 0 is success"),
    ),
    extra=(
        Column("name", "int32", "row in names", **NAME),
        Column("start_ns", "int64", "Unix time", **TIME),
        Column("duration_ns", "int64", "until it returned", **DURATION),
        _SYSTEM_THREAD,
    ),
)

GPU_GRAPH_NODES = TableSchema(
    "gpu_graph_nodes",
    "one node of a captured CUDA graph, and the program's state at its capture",
    (
        Column("node", "int64", "as in gpu.graph_node"),
        Column(
            "event",
            "int32",
            "innermost event at the capture; -1: in an earlier recording",
            **NO_EVENT,
            delivered=Delivered.NEVER,
        ),
        Column("operator", "int32", "operator at the capture, else the annotation", **_TEXT),
        Column("module", "int32", "modules around it, outermost first", **_TEXT),
        Column("shapes", "int32", "of the operator's inputs, as text", **_TEXT),
        Column("stack", "int32", "Python calls, innermost first", **_TEXT),
    ),
    extra=(
        Column("time_ns", "int64", "Unix time of the capture; 0: before this recording"),
        _SYSTEM_THREAD,
    ),
)

GPU_MEMORY = TableSchema(
    "gpu_memory",
    "one allocation or release of the device's driver (not of torch's caching allocator)",
    (
        Column("time_ns", "int64", "Unix time", **TIME),
        Column("action", "uint8", "AllocationAction", codes=AllocationAction),
        Column("event", "int32", "event around it", **NO_EVENT, delivered=Delivered.NEVER),
        Column("device_index", "int8", "device"),
        Column("memory", "uint8", "CUpti_ActivityMemoryKind"),
        Column("address", "uint64", "of the block"),
        Column("size_bytes", "int64", "negative for a release", **SIZE),
        Column("correlation_id", "int64", "of the runtime call"),
        Column("is_pool", "bool", "of a memory pool as a whole"),
    ),
)

GPU_OVERHEADS = TableSchema(
    "gpu_overheads",
    "program time spent on collecting device activity",
    (
        Column("kind", "int32", "CUpti_ActivityOverheadKind"),
        Column("name", "int32", "row in names", **_TEXT),
        Column("start_ns", "int64", "Unix time", **TIME),
        Column("duration_ns", "int64", "of the overhead", **DURATION),
        Column(
            "thread", "int32", "row in threads", -1, refers="threads", delivered=Delivered.NEVER
        ),
    ),
    extra=(_SYSTEM_THREAD,),
)

DEVICE_TABLES = (GPU, RUNTIME_CALLS, GPU_GRAPH_NODES, GPU_MEMORY, GPU_OVERHEADS)
