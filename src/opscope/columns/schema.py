"""Every table and column of a trace: dtype, unit and meaning.

The native decoder, the in-memory tables, the Parquet files and ``docs/file-format.md`` follow this
module. The decoder's C++ columns are generated from it, and ``recording/decoded.py`` compares the
decoder's result with it. Names have units (``_ns``, ``_bytes``). ``columns.codes`` has codes.

Conventions: ``-1`` in an index column means "none"; strings are rows of ``names``; times are
nanoseconds since the Unix epoch. The row number is the id (``events`` are in start order over all
threads), so there is no id column in memory.
"""

from __future__ import annotations

from opscope.columns.codes import AllocationAction as AllocationAction
from opscope.columns.codes import CompilationKind, LinkKind, OriginsKnownFrom, ParameterRole
from opscope.columns.codes import EventKind as EventKind
from opscope.columns.codes import RecordScope as RecordScope
from opscope.columns.codes import Role as Role
from opscope.columns.codes import ScalarType as ScalarType
from opscope.columns.codes import WaitsFor as WaitsFor
from opscope.columns.column import (
    BYTES,
    DURATION,
    EVENT,
    NAME,
    NO_EVENT,
    POSITION,
    SHAPE,
    SIZE,
    TIME,
    Column,
    Delivered,
    TableSchema,
)
from opscope.columns.device_schema import DEVICE_TABLES

SCHEMA_VERSION = 1  # raised when a column is removed or changes meaning, not when one is added


UNKNOWN_KIND = 255  # ``events.kind`` of a span whose kind only a newer opscope knows

EVENTS = TableSchema(
    "events",
    "a span; row number = event id, in order of start time over all threads",
    (
        Column("thread", "int32", "row in threads", refers="threads"),
        Column("parent", "int32", "innermost event around it on the same thread", **NO_EVENT),
        Column("name", "int32", "row in names", **NAME),
        Column("overload", "int32", "operator overload name, row in names", **NAME),
        Column("kind", "uint8", "EventKind", codes=EventKind, unknown=UNKNOWN_KIND),
        Column(
            "category",
            "int32",
            "category in another tool's file if it differs from opscope's; row in names",
            **NAME,
            delivered=Delivered.NEVER,
        ),
        Column("scope", "uint8", "RecordScope; USER_SCOPE for annotations"),
        Column("start_ns", "int64", "Unix time", **TIME),
        Column("duration_ns", "int64", "until its end; see unfinished", **DURATION),
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
            "for work that another thread requested: torch_thread_id of that thread; 0 none",
        ),
        Column(
            "record_function_id",
            "int64",
            "id of this event in files for other tools; -1: its row number + 1",
            -1,
            delivered=Delivered.SOMETIMES,
        ),
        Column(
            "step",
            "int32",
            "N of the ProfilerStep#N in which it started",
            -1,
            delivered=Delivered.NEVER,
        ),
        Column(
            "unfinished",
            "bool",
            "no end was recorded: it ends with its parent or the recording",
        ),
        Column("raised", "bool", "it ended with an exception, so its work may be incomplete"),
        Column("is_async", "bool", "began and ended on different threads, or torch marks it so"),
    ),
)

TENSORS = TableSchema(
    "tensors",
    "one tensor argument (or element of a tensor list) of one event",
    (
        Column("event", "int32", "row in events", **EVENT),
        Column("argument", "int16", "position in the call; -1 for keyword arguments", **POSITION),
        Column(
            "element",
            "int32",
            "position in a tensor list; in a tuple or list of lists, position among its tensors; "
            "-1 if the argument is a tensor",
            -1,
            least=-1,
        ),
        Column("role", "uint8", "Role", codes=Role),
        Column("keyword", "int32", "keyword argument's name, row in names", **NAME),
        Column("tensor_id", "int64", "follows a tensor across views, set_ and resize_", -1),
        Column("allocation_id", "int64", "the allocation its storage came from", -1),
        Column("impl", "uint64", "address of the TensorImpl; 0 for an undefined tensor"),
        Column("storage", "uint64", "address of the first byte of its storage; 0 if none"),
        Column("storage_impl", "uint64", "address of the StorageImpl; 0 if none"),
        Column("storage_offset", "int64", "in elements"),
        Column("version", "int64", "autograd version counter; -1 without one", -1),
        Column("dtype", "int8", "c10::ScalarType", -1),
        Column(
            "unsized_dtype",
            "int8",
            "c10::ScalarType of a tensor without plain sizes (nested, symbolic), whose dtype is -1",
            -1,
        ),
        Column("device_type", "int8", "c10::DeviceType"),
        Column("device_index", "int8", "-1 for the CPU", -1),
        Column("layout", "int8", "c10::Layout; -1 for a None in a list of tensors"),
        Column("requires_grad", "bool", "at the call"),
        Column("is_wrapped_number", "bool", "a Python scalar that torch wrapped in a tensor"),
        Column("sizes", "list[int64]", "shape; empty for a zero-dim tensor", **SHAPE),
        Column(
            "strides",
            "list[int64]",
            "in elements; empty unless the layout is strided",
            as_long_as="sizes",
        ),
    ),
)

SCALARS = TableSchema(
    "scalars",
    "one argument that is not a tensor. A tuple, or a list of lists, strings or mixed kinds, is "
    'JSON: "Tensor" for a tensor, which has a row in tensors, {kind: value} for anything else, as '
    'in {"Tuple": ["Tensor", {"Int": 2}]}',
    (
        Column("event", "int32", "row in events", **EVENT),
        Column("argument", "int16", "position in the call; -1 for keyword arguments", **POSITION),
        Column("role", "uint8", "Role", codes=Role),
        Column("keyword", "int32", "keyword argument's name, row in names", **NAME),
        Column("type", "uint8", "ScalarType", codes=ScalarType),
        Column("value", "int32", "its text as torch prints it, row in names", **NAME),
    ),
)

ALLOCATIONS = TableSchema(
    "allocations",
    "one allocation, free or failed allocation",
    (
        Column("event", "int32", "innermost span around it", **NO_EVENT),
        Column("thread", "int32", "row in threads", refers="threads"),
        Column("action", "uint8", "AllocationAction", codes=AllocationAction),
        Column("time_ns", "int64", "Unix time", **TIME),
        Column("address", "uint64", "of the block"),
        Column("size_bytes", "int64", "negative for a free", **SIZE),
        Column("total_allocated_bytes", "int64", "in the device's allocator, afterwards", **BYTES),
        Column(
            "total_reserved_bytes",
            "int64",
            "afterwards; 0 if the allocator has no pool",
            **BYTES,
        ),
        Column("device_type", "int8", "c10::DeviceType"),
        Column("device_index", "int8", "-1 for the CPU", -1),
        Column("allocation_id", "int64", "unique per allocation; its free has the same", -1),
        Column("tensor_id", "int64", "the tensor it belongs to", -1),
    ),
)

PYTHON_CALLS = TableSchema(
    "python_calls",
    "details of a PYTHON_CALL, C_CALL, MODULE_CALL or OPTIMIZER_CALL",
    (
        Column("event", "int32", "row in events", **EVENT),
        Column("frame", "int32", "function called, row in frames", -1, refers="frames"),
        Column("caller", "int32", "function that called it, row in frames", -1, refers="frames"),
        Column("caller_line", "int32", "line in the caller", -1),
        Column("module", "int32", "row in modules", -1, refers="modules"),
        Column("optimizer", "int32", "row in optimizers", -1, refers="optimizers"),
    ),
)

OPERATOR_CALLS = TableSchema(
    "operator_calls",
    "call site of an operator that Python called without a C function in between, as in x + y and "
    "x[i]: python_calls has no row for it",
    (
        Column("event", "int32", "row in events", **EVENT),
        Column("caller", "int32", "function that called it, row in frames", -1, refers="frames"),
        Column("caller_line", "int32", "line in the caller", -1),
    ),
)

SCRIPT_CALLS = TableSchema(
    "script_calls",
    "call site of an operator in TorchScript, as torch writes it; rows in names",
    (
        Column("event", "int32", "row in events", **EVENT),
        Column(
            "modules",
            "int32",
            "modules around it, outermost first: TOP(C)::forward.A0(A)::forward.",
            **NAME,
        ),
        Column(
            "functions",
            "int32",
            "functions around it, innermost first: file(line): function;",
            **NAME,
        ),
    ),
)

TASK_RUNS = TableSchema(
    "task_runs",
    "details of a TASK_RUN",
    (
        Column("event", "int32", "row in events", **EVENT),
        Column("task", "int32", "row in tasks", refers="tasks"),
        Column(
            "waited_ns",
            "int64",
            "since its task's previous run; -1: not in the trace",
            -1,
            least=-1,
        ),
    ),
)

TASKS = TableSchema(
    "tasks",
    "one asyncio task that ran",
    (
        Column("name", "int32", "its last name, row in names", **NAME),
        Column("frame", "int32", "its coroutine function, row in frames", -1, refers="frames"),
    ),
)

FRAMES = TableSchema(
    "frames",
    "one Python function (code object) or C function",
    (
        Column("file", "int32", "row in names", **NAME),
        Column("function", "int32", "row in names", **NAME),
        Column("line", "int32", "first line of the function", -1),
    ),
)

MODULES = TableSchema(
    "modules",
    "one nn.Module instance that was called",
    (
        Column("address", "uint64", "id() of the instance"),
        Column("class_address", "uint64", "id() of its class"),
        Column("class_name", "int32", "row in names", **NAME),
        Column(
            "name", "int32", "class name with instance number, as in Linear_0; row in names", **NAME
        ),
        Column(
            "path",
            "int32",
            "path in named_modules() of the outermost module, such as blocks.3.mlp.0; -1 for the "
            "outermost module, and if unknown; row in names",
            **NAME,
            delivered=Delivered.NEVER,
        ),
    ),
)

OPTIMIZERS = TableSchema(
    "optimizers",
    "one Optimizer instance that stepped",
    (
        Column("address", "uint64", "id() of the instance"),
        Column("class_name", "int32", "row in names", **NAME),
    ),
)

PARAMETERS = TableSchema(
    "parameters",
    "one tensor held by a module or an optimizer: a parameter, its gradient, or optimizer state",
    (
        Column("module", "int32", "row in modules", -1, refers="modules"),
        Column("optimizer", "int32", "row in optimizers", -1, refers="optimizers"),
        Column("parameter", "int32", "number of the parameter within its owner"),
        Column("name", "int32", "parameter or state name, row in names", **NAME),
        Column("role", "uint8", "0 parameter, 1 gradient, 2 optimizer state", codes=ParameterRole),
        Column("time_ns", "int64", "time of the reading, at the first recorded call", **TIME),
        Column("tensor_id", "int64", "as in tensors", -1),
        Column("allocation_id", "int64", "as in tensors", -1),
        Column("impl", "uint64", "as in tensors"),
        Column("storage", "uint64", "as in tensors"),
        Column("dtype", "int8", "c10::ScalarType", -1),
        Column("device_type", "int8", "c10::DeviceType"),
        Column("device_index", "int8", "-1 for the CPU", -1),
        Column("layout", "int8", "c10::Layout"),
        Column("sizes", "list[int64]", "shape", **SHAPE),
        Column("strides", "list[int64]", "in elements", as_long_as="sizes"),
    ),
)

COMPILED_SITES = TableSchema(
    "compiled_sites",
    "one line of code generated by torch.compile that calls a kernel or an operator",
    (
        Column("file", "int32", "the generated file, row in names", **NAME),
        Column("line", "int32", "in that file, as in python_calls and operator_calls", -1),
        Column(
            "graph", "int32", "inductor's name of the graph, as in 0_forward; row in names", **NAME
        ),
        Column("callee", "int32", "called function, as written there; row in names", **NAME),
        Column("is_cpp", "bool", "a C++ kernel that inductor generated for this graph"),
        Column("known_from", "uint8", "OriginsKnownFrom", codes=OriginsKnownFrom),
    ),
)

COMPILED_ORIGINS = TableSchema(
    "compiled_origins",
    "one operation of the program in a line of generated code",
    (
        Column("site", "int32", "row in compiled_sites", refers="compiled_sites"),
        Column("node", "int32", "its name in the compiled graph, row in names", **NAME),
        Column("operator", "int32", "operator, as in aten.relu; row in names", **NAME),
        Column("file", "int32", "file of the call in the program, row in names", **NAME),
        Column("line", "int32", "in that file", -1),
        Column("function", "int32", "in that file, row in names", **NAME),
        Column(
            "module",
            "int32",
            "path of the module that called it, as in blocks.3.mlp; row in names",
            **NAME,
        ),
    ),
)

COMPILATIONS = TableSchema(
    "compilations",
    "one compilation, graph break or failure of torch.compile, also before the recording",
    (
        Column("kind", "uint8", "CompilationKind", codes=CompilationKind, unknown=3),
        Column("start_ns", "int64", "Unix time", **TIME),
        Column("duration_ns", "int64", "0 for a graph break", **DURATION),
        Column("compile_id", "int32", "torch's, as in 0/1; row in names", **NAME),
        Column("function", "int32", "compiled function, row in names", **NAME),
        Column("file", "int32", "of the function, or of the graph break; row in names", **NAME),
        Column("line", "int32", "first line of the function, or line of the graph break", -1),
        Column(
            "reason",
            "int32",
            "of the recompilation, graph break or failure; row in names",
            **NAME,
        ),
        Column("from_cache", "bool", "its code came from inductor's cache"),
    ),
)

LINKS = TableSchema(
    "links",
    "an arrow between two events",
    (
        Column("kind", "uint8", "0 forward to backward, 1 between ranks", codes=LinkKind),
        Column("source", "int32", "row in events", **EVENT),
        Column("target", "int32", "row in events", **EVENT),
    ),
)

THREADS = TableSchema(
    "threads",
    "one thread with recorded data",
    (
        Column("system_thread_id", "int64", "kernel thread id"),
        Column(
            "torch_thread_id", "int64", "RecordFunction's logical id; 0 if torch never ran there"
        ),
        Column("name", "int32", "row in names", **NAME),
        Column(
            "process_id",
            "int64",
            "process of the thread; -1: the trace's process",
            -1,
            delivered=Delivered.NEVER,
        ),
    ),
)

THREAD_SAMPLES = TableSchema(
    "thread_samples",
    "the kernel's counters of one thread at one time; the difference of two rows is the activity "
    "in between. An idle thread has rows only at the begin and end of its idle time",
    (
        Column(
            "system_thread_id",
            "int64",
            "kernel thread id; negative: id of a child process or a "
            "rank beside this one, with the CPU time of its threads and the waits of its main one",
        ),
        Column("time_ns", "int64", "Unix time", **TIME),
        Column("computed_ns", "int64", "CPU time since the thread began", **TIME),
        Column("delayed_ns", "int64", "waiting for a CPU, since the thread began", **TIME),
        Column("system_ns", "int64", "part of computed_ns in the kernel, to 10 ms", **TIME),
        Column("faults", "int64", "page faults, since the thread began", **TIME),
        Column("waits_for", "uint8", "WaitsFor, at that moment", codes=WaitsFor, unknown=7),
    ),
)

LEDGER = TableSchema(
    "ledger",
    "one count or measurement of the recorder about itself",
    (
        Column("source", "string", "operators, allocations, python, gpu, recorder"),
        Column(
            "what", "string", "requested, recorded, dropped: <reason>, cost_ns of one <kind>, ..."
        ),
        Column("value", "float64", "a count, or nanoseconds for cost_ns", **BYTES),
    ),
)

END_WITHOUT_DEVICE_DATA = "without device data at the end_ns"
"""Row of the ledger under ``gpu``: a killed process's device activity in that time is unknown."""

SOURCE_LINES = TableSchema(
    "source_lines",
    "text of a program line that made a recorded call or begins a recorded function, or of one of "
    "the three lines after such a line",
    (
        Column("file", "int32", "row in names", **NAME),
        Column("line", "int32", "number in the file, from 1", -1),
        Column("text", "string", "without indentation, at most 200 characters"),
    ),
)

METADATA = TableSchema(
    "metadata",
    "one key with a JSON value: options, versions, machine, and what the user added",
    (Column("key", "string", "unique"), Column("value", "string", "JSON text")),
)

_OF_SPANS = (
    EVENTS,
    TENSORS,
    SCALARS,
    ALLOCATIONS,
    PYTHON_CALLS,
    OPERATOR_CALLS,
    SCRIPT_CALLS,
    TASK_RUNS,
    TASKS,
    FRAMES,
    MODULES,
    OPTIMIZERS,
    PARAMETERS,
)

RECORDED_TABLES = (*_OF_SPANS, THREADS)
"""Tables that the native decoder makes; with recorded devices also ``DEVICE_TABLES``.

``native/schema/generate_schema.py`` writes their columns as C++. Python makes ``links``,
``source_lines``, ``ledger`` and ``metadata``."""

SAMPLED_TABLES = (THREAD_SAMPLES,)  # tables that the native sampler of threads fills in
_OF_PYTHON = (COMPILED_SITES, COMPILED_ORIGINS, COMPILATIONS, SOURCE_LINES, LEDGER, METADATA)

TABLES: dict[str, TableSchema] = {
    table.name: table
    for table in (*_OF_SPANS, *DEVICE_TABLES, LINKS, THREADS, *SAMPLED_TABLES, *_OF_PYTHON)
}
"""Tables by name. ``names`` (the one string table) is separate: see ``trace.names``."""
