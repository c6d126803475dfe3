"""Every table and column of a trace: dtype, unit and meaning, in one place.

The native decoder, the in-memory tables, the Parquet files and ``docs/file-format.md`` all follow
this module; a test holds them together. Units are part of the name (``_ns``, ``_bytes``).

Conventions: ``-1`` in an index column means "none"; strings are indices into ``names``; times are
nanoseconds since the Unix epoch; row number is identity (``events.id`` is the row number, in start
order over all threads), so no id column is kept in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

SCHEMA_VERSION = 1
"""Raised when a column is removed or changes meaning. Added columns do not raise it."""


class EventKind(IntEnum):
    """What kind of span a row of ``events`` is."""

    OPERATOR = 0  # an operator, autograd node, TorchScript call: anything torch dispatched
    ANNOTATION = 1  # record_function and friends: a span the user (or a library) named
    PYTHON_CALL = 2  # a Python function
    C_CALL = 3  # a C function called from Python
    MODULE_CALL = 4  # nn.Module.__call__, named after the instance
    OPTIMIZER_CALL = 5  # Optimizer.step of one instance
    GC_PAUSE = 6  # a garbage collection
    RUNTIME_CALL = 7  # a call into a device's runtime or driver, such as cudaLaunchKernel


class RecordScope(IntEnum):
    """``at::RecordScope``: where in torch a span was emitted (ATen/record_function.h)."""

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7
    STATIC_RUNTIME_OP = 8
    STATIC_RUNTIME_MODEL = 9


class ScalarType(IntEnum):
    """What a row of ``scalars`` holds; its ``value`` is always text in torch's own spelling."""

    NONE = 0  # None; text is ""
    BOOL = 1
    INT = 2
    FLOAT = 3
    COMPLEX = 4
    STRING = 5
    DEVICE = 6
    INT_LIST = 7
    FLOAT_LIST = 8
    BOOL_LIST = 9
    TENSOR_LIST = 10  # only for an empty list of tensors, which has no row in ``tensors``
    OTHER_LIST = 11  # of strings, of lists, of mixed kinds; text as for OTHER, or "[]"
    OTHER = 12  # a tuple: text is JSON, see SCALARS. Else without a text form (an object, a
    # generator): text is torch's name for its kind


class Role(IntEnum):
    """On which side of a call a tensor or scalar was seen."""

    INPUT = 0
    OUTPUT = 1
    KEYWORD = 2
    INPUT_PART = 3  # a tensor inside an argument that is a tuple or a list of lists
    OUTPUT_PART = 4


class AllocationAction(IntEnum):
    """What a row of ``allocations`` records."""

    ALLOCATE = 0
    FREE = 1
    OUT_OF_MEMORY = 2


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: with its unit, where it has one.
        dtype: NumPy dtype name; ``list[int64]`` for a ragged column; ``string`` only in the tables
            that hold text themselves.
        meaning: one line, shown in the file format documentation.
        default: what a reader fills in when a file lacks the column.
        refers: the table a value is a row of, if it is one.
    """

    name: str
    dtype: str
    meaning: str
    default: int = 0
    refers: str = ""


@dataclass(frozen=True)
class TableSchema:
    """One table: its name, what a row is, and its columns in order."""

    name: str
    row: str
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        """The column called ``name``.

        Raises:
            KeyError: there is none.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


EVENTS = TableSchema(
    "events",
    "a span; row number = event id, in order of start time over all threads",
    (
        Column("thread", "int32", "row in threads", refers="threads"),
        Column(
            "parent",
            "int32",
            "event this one ran directly inside, on the same thread",
            -1,
            refers="events",
        ),
        Column("name", "int32", "row in names", -1, refers="names"),
        Column("overload", "int32", "operator overload name, row in names", -1, refers="names"),
        Column("kind", "uint8", "EventKind"),
        Column("scope", "uint8", "RecordScope; USER_SCOPE for annotations"),
        Column("start_ns", "int64", "Unix time"),
        Column("duration_ns", "int64", "until its end; see unfinished"),
        Column(
            "sequence_number",
            "int64",
            "links a forward operator to its backward: same number, same forward thread",
            -1,
        ),
        Column(
            "forward_thread",
            "int32",
            "for backward nodes: torch_thread_id of the thread that ran the forward; 0 none",
        ),
        Column(
            "launch_thread",
            "int32",
            "for work that another thread asked for: torch_thread_id of that thread; 0 none",
        ),
        Column(
            "record_function_id",
            "int64",
            "what files for other tools call this event; -1: its row number + 1",
            -1,
        ),
        Column("step", "int32", "N of the ProfilerStep#N this started in", -1),
        Column(
            "unfinished", "bool", "no end was seen: it ends with its parent, or with the recording"
        ),
        Column("is_async", "bool", "ended on another thread than it began on, or torch says so"),
    ),
)

TENSORS = TableSchema(
    "tensors",
    "one tensor argument (or element of a tensor list) of one event",
    (
        Column("event", "int32", "row in events", refers="events"),
        Column("argument", "int16", "position in the call; -1 for keyword arguments"),
        Column(
            "element",
            "int32",
            "position in a tensor list; in a tuple or list of lists, position among its tensors; "
            "-1 if the argument is a tensor",
            -1,
        ),
        Column("role", "uint8", "Role"),
        Column("keyword", "int32", "keyword argument's name, row in names", -1, refers="names"),
        Column("tensor_id", "int64", "follows a tensor across views, set_ and resize_", -1),
        Column("allocation_id", "int64", "the allocation its storage came from", -1),
        Column("impl", "uint64", "address of the TensorImpl; 0 for an undefined tensor"),
        Column("storage", "uint64", "address of the first byte of its storage; 0 if none"),
        Column("storage_impl", "uint64", "address of the StorageImpl; 0 if none"),
        Column("storage_offset", "int64", "in elements"),
        Column("version", "int64", "autograd version counter; -1 where there is none", -1),
        Column("dtype", "int8", "c10::ScalarType", -1),
        Column(
            "unsized_dtype",
            "int8",
            "its c10::ScalarType where it has no plain sizes (nested, symbolic); dtype is -1 then",
            -1,
        ),
        Column("device_type", "int8", "c10::DeviceType"),
        Column("device_index", "int8", "-1 for the CPU", -1),
        Column("layout", "int8", "c10::Layout; -1 for a None in a list of tensors"),
        Column("requires_grad", "bool", "as seen at the call"),
        Column("is_wrapped_number", "bool", "a Python scalar that torch wrapped in a tensor"),
        Column("sizes", "list[int64]", "shape; empty for a zero-dim tensor"),
        Column("strides", "list[int64]", "in elements; empty unless the layout is strided"),
    ),
)

SCALARS = TableSchema(
    "scalars",
    "one argument that is not a tensor. A tuple, or a list of lists, strings or mixed kinds, is "
    'JSON: "Tensor" for a tensor, which has a row in tensors, {kind: value} for anything else, as '
    'in {"Tuple": ["Tensor", {"Int": 2}]}',
    (
        Column("event", "int32", "row in events", refers="events"),
        Column("argument", "int16", "position in the call; -1 for keyword arguments"),
        Column("role", "uint8", "Role"),
        Column("keyword", "int32", "keyword argument's name, row in names", -1, refers="names"),
        Column("type", "uint8", "ScalarType"),
        Column("value", "int32", "its text as torch prints it, row in names", -1, refers="names"),
    ),
)

ALLOCATIONS = TableSchema(
    "allocations",
    "one allocation, free or failed allocation",
    (
        Column("event", "int32", "span it happened in", -1, refers="events"),
        Column("thread", "int32", "row in threads", refers="threads"),
        Column("action", "uint8", "AllocationAction"),
        Column("time_ns", "int64", "Unix time"),
        Column("address", "uint64", "of the block"),
        Column("size_bytes", "int64", "negative for a free"),
        Column("total_allocated_bytes", "int64", "in the device's allocator, afterwards"),
        Column("total_reserved_bytes", "int64", "afterwards; 0 where the allocator has no pool"),
        Column("device_type", "int8", "c10::DeviceType"),
        Column("device_index", "int8", "-1 for the CPU", -1),
        Column("allocation_id", "int64", "unique per allocation; its free has the same", -1),
        Column("tensor_id", "int64", "the tensor it belongs to", -1),
    ),
)

PYTHON_CALLS = TableSchema(
    "python_calls",
    "what is known of a PYTHON_CALL, C_CALL, MODULE_CALL or OPTIMIZER_CALL beyond its span",
    (
        Column("event", "int32", "row in events", refers="events"),
        Column("frame", "int32", "function called, row in frames", -1, refers="frames"),
        Column("caller", "int32", "function that called it, row in frames", -1, refers="frames"),
        Column("caller_line", "int32", "line in the caller", -1),
        Column("module", "int32", "row in modules", -1, refers="modules"),
        Column("optimizer", "int32", "row in optimizers", -1, refers="optimizers"),
    ),
)

SCRIPT_CALLS = TableSchema(
    "script_calls",
    "where in TorchScript an operator was called, as torch writes it; row in names each",
    (
        Column("event", "int32", "row in events", refers="events"),
        Column(
            "modules",
            "int32",
            "modules around it, outermost first: TOP(C)::forward.A0(A)::forward.",
            -1,
            refers="names",
        ),
        Column(
            "functions",
            "int32",
            "functions around it, innermost first: file(line): function;",
            -1,
            refers="names",
        ),
    ),
)

FRAMES = TableSchema(
    "frames",
    "one Python function (code object) or C function",
    (
        Column("file", "int32", "row in names", -1, refers="names"),
        Column("function", "int32", "row in names", -1, refers="names"),
        Column("line", "int32", "first line of the function", -1),
    ),
)

MODULES = TableSchema(
    "modules",
    "one nn.Module instance that was called",
    (
        Column("address", "uint64", "id() of the instance"),
        Column("class_address", "uint64", "id() of its class"),
        Column("class_name", "int32", "row in names", -1, refers="names"),
        Column(
            "name",
            "int32",
            "class name with instance number, as in Linear_0; row in names",
            -1,
            refers="names",
        ),
    ),
)

OPTIMIZERS = TableSchema(
    "optimizers",
    "one Optimizer instance that stepped",
    (
        Column("address", "uint64", "id() of the instance"),
        Column("class_name", "int32", "row in names", -1, refers="names"),
    ),
)

PARAMETERS = TableSchema(
    "parameters",
    "one tensor held by a module or an optimizer: a parameter, its gradient, or optimizer state",
    (
        Column("module", "int32", "row in modules", -1, refers="modules"),
        Column("optimizer", "int32", "row in optimizers", -1, refers="optimizers"),
        Column("parameter", "int32", "number of the parameter within its owner"),
        Column("name", "int32", "parameter or state name, row in names", -1, refers="names"),
        Column("role", "uint8", "0 parameter, 1 gradient, 2 optimizer state"),
        Column("time_ns", "int64", "when it was read: at the first call in the recording"),
        Column("tensor_id", "int64", "as in tensors", -1),
        Column("allocation_id", "int64", "as in tensors", -1),
        Column("impl", "uint64", "as in tensors"),
        Column("storage", "uint64", "as in tensors"),
        Column("dtype", "int8", "c10::ScalarType", -1),
        Column("device_type", "int8", "c10::DeviceType"),
        Column("device_index", "int8", "-1 for the CPU", -1),
        Column("layout", "int8", "c10::Layout"),
        Column("sizes", "list[int64]", "shape"),
        Column("strides", "list[int64]", "in elements"),
    ),
)

GPU = TableSchema(
    "gpu",
    "one activity of a device: kernel, copy, set or synchronisation",
    (
        Column("kind", "uint8", "0 kernel, 1 copy, 2 set, 3 synchronisation, 4 annotation"),
        Column("name", "int32", "row in names", -1, refers="names"),
        Column("start_ns", "int64", "Unix time"),
        Column("duration_ns", "int64", "on the device"),
        Column("device_type", "int8", "c10::DeviceType"),
        Column("device_index", "int8", "device"),
        Column("context", "int32", "device context"),
        Column("stream", "int32", "device stream; -1 where it concerns none or all"),
        Column("correlation_id", "int64", "of the runtime call that launched it"),
        Column("launch", "int32", "event that launched it", -1, refers="events"),
        Column("size_bytes", "int64", "copied or set"),
        Column("grid", "list[int64]", "launch grid: x, y, z"),
        Column("block", "list[int64]", "thread block: x, y, z"),
        Column("registers_per_thread", "int32", "of a kernel"),
        Column("shared_memory_bytes", "int32", "of a kernel: static and dynamic, per block"),
        Column("queued_ns", "int64", "Unix time it was queued; 0 where not measured"),
        Column("submitted_ns", "int64", "Unix time it was submitted; 0 where not measured"),
        Column("graph", "int64", "CUDA graph it ran in; 0 none"),
        Column("graph_node", "int64", "node of that graph, see gpu_graph_nodes; 0 none"),
        Column(
            "capture",
            "int32",
            "event during which the graph's node was captured; see gpu_graph_nodes otherwise",
            -1,
            refers="events",
        ),
        Column("copy_kind", "uint8", "of a copy: CUpti_ActivityMemcpyKind"),
        Column("source_memory", "uint8", "of a copy: CUpti_ActivityMemoryKind"),
        Column(
            "destination_memory",
            "uint8",
            "of a copy or set: CUpti_ActivityMemoryKind of the target",
        ),
        Column("peer_device", "int8", "of a copy between devices: the one read from", -1),
        Column("target_device", "int8", "of a copy between devices: the one written to", -1),
        Column("sync_kind", "uint8", "of a synchronisation: CUpti_ActivitySynchronizationType"),
        Column(
            "wait_on_cuda_event_record_corr_id",
            "int64",
            "of a wait for a CUDA event: correlation_id of the call that recorded it; -1 unknown",
            -1,
        ),
        Column("wait_on_stream", "int32", "likewise: the stream it was recorded on", -1),
    ),
)

RUNTIME_CALLS = TableSchema(
    "runtime_calls",
    "what is known of a RUNTIME_CALL beyond its span",
    (
        Column("event", "int32", "row in events", refers="events"),
        Column("correlation_id", "int64", "what the work it launched has as well"),
        Column("api", "uint8", "0 runtime, 1 driver"),
        Column("function", "int32", "number of the function in that API (CUPTI's cbid)"),
        Column("result", "int32", "what it returned; 0 is success"),
    ),
)

GPU_GRAPH_NODES = TableSchema(
    "gpu_graph_nodes",
    "one node of a captured CUDA graph, and what was going on when it was captured",
    (
        Column("node", "int64", "as in gpu.graph_node"),
        Column(
            "event",
            "int32",
            "innermost event at the capture; -1 if that was in an earlier recording",
            -1,
            refers="events",
        ),
        Column("operator", "int32", "else the annotation around it", -1, refers="names"),
        Column("module", "int32", "modules around it, outermost first", -1, refers="names"),
        Column("shapes", "int32", "of the operator's inputs, as text", -1, refers="names"),
        Column("stack", "int32", "Python calls, innermost first", -1, refers="names"),
    ),
)

GPU_MEMORY = TableSchema(
    "gpu_memory",
    "one allocation or release that the device's driver made (not torch's caching allocator)",
    (
        Column("time_ns", "int64", "Unix time"),
        Column("action", "uint8", "AllocationAction"),
        Column("event", "int32", "event it happened in", -1, refers="events"),
        Column("device_index", "int8", "device"),
        Column("memory", "uint8", "CUpti_ActivityMemoryKind"),
        Column("address", "uint64", "of the block"),
        Column("size_bytes", "int64", "negative for a release"),
        Column("correlation_id", "int64", "of the runtime call"),
        Column("is_pool", "bool", "of a memory pool as a whole"),
    ),
)

GPU_OVERHEADS = TableSchema(
    "gpu_overheads",
    "time that collecting device activity took from the program",
    (
        Column("kind", "int32", "CUpti_ActivityOverheadKind"),
        Column("name", "int32", "row in names", -1, refers="names"),
        Column("start_ns", "int64", "Unix time"),
        Column("duration_ns", "int64", "taken"),
        Column("thread", "int32", "row in threads", -1, refers="threads"),
    ),
)

LINKS = TableSchema(
    "links",
    "an arrow between two events",
    (
        Column("kind", "uint8", "0 forward to backward"),
        Column("source", "int32", "row in events", refers="events"),
        Column("target", "int32", "row in events", refers="events"),
    ),
)

THREADS = TableSchema(
    "threads",
    "one thread that recorded something",
    (
        Column("system_thread_id", "int64", "kernel thread id"),
        Column(
            "torch_thread_id", "int64", "RecordFunction's logical id; 0 if torch never ran there"
        ),
        Column("name", "int32", "row in names", -1, refers="names"),
    ),
)

LEDGER = TableSchema(
    "ledger",
    "one count or measurement the recorder made about itself",
    (
        Column("source", "string", "operators, allocations, python, gpu, recorder"),
        Column("what", "string", "requested, recorded, dropped: <reason>, cost_ns: <level>, ..."),
        Column("value", "float64", "a count, or nanoseconds for cost_ns"),
    ),
)

METADATA = TableSchema(
    "metadata",
    "one key with a JSON value: options, versions, machine, and what the user added",
    (
        Column("key", "string", "unique"),
        Column("value", "string", "JSON text"),
    ),
)

TABLES: dict[str, TableSchema] = {
    table.name: table
    for table in (
        EVENTS,
        TENSORS,
        SCALARS,
        ALLOCATIONS,
        PYTHON_CALLS,
        SCRIPT_CALLS,
        FRAMES,
        MODULES,
        OPTIMIZERS,
        PARAMETERS,
        GPU,
        RUNTIME_CALLS,
        GPU_GRAPH_NODES,
        GPU_MEMORY,
        GPU_OVERHEADS,
        LINKS,
        THREADS,
        LEDGER,
        METADATA,
    )
}
"""By name. ``names`` (the one string table) is kept apart: see ``trace.names``."""
