"""Every enumeration: what the small numbers in columns and between Python and native code mean.

Native code gets these from here (``native/schema/generate_schema.py`` writes them as C++), so this
module imports nothing beyond the standard library. An enumeration's numbers are in files: new
members get new numbers.
"""

from __future__ import annotations

from enum import Enum, IntEnum, IntFlag


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
    TASK_RUN = 8  # what an asyncio task does between two awaits
    COMPILED_GRAPH = 9  # a run of the code that torch.compile generated for one graph


class Want(IntFlag):
    """What a window may ask of the recorder; ``recording/sources.py`` says which option asks it."""

    OPERATORS = 1 << 0
    INPUTS = 1 << 1  # of operators: shapes, strides, scalars
    OUTPUTS = 1 << 2  # the same of results
    MEMORY = 1 << 3  # allocations and frees
    OVERLOADS = 1 << 4  # operator overload names
    PYTHON = 1 << 5  # Python and C calls
    MODULES = 1 << 6  # nn.Module and optimizer calls only
    GC = 1 << 7  # garbage collections
    ANNOTATIONS = 1 << 8  # spans the user named
    NEW_THREADS = 1 << 9  # Python calls also of threads that begin later
    PROCESS_IDS = 1 << 10  # ids of spans that are the same in every window open meanwhile
    ASYNCIO = 1 << 11  # runs of asyncio tasks
    FUNCTIONS = 1 << 12  # Python calls without C calls
    OWN_FUNCTIONS = 1 << 13  # those alone of the program's own files
    INNER_OPERATORS = 1 << 14  # those that other operators run; without it outermost ones alone
    COMPILED = 1 << 15  # runs of compiled code
    GPU = 1 << 16  # what devices do, and calls of their runtime
    GPU_SYNC = 1 << 17  # with it, which CUDA event a wait is for


_FUNCTIONS = Want.PYTHON | Want.FUNCTIONS | Want.OWN_FUNCTIONS
WANTED_BY = {
    EventKind.OPERATOR: Want.OPERATORS,
    EventKind.ANNOTATION: Want.ANNOTATIONS,
    EventKind.PYTHON_CALL: _FUNCTIONS,
    EventKind.C_CALL: Want.PYTHON,
    EventKind.MODULE_CALL: _FUNCTIONS | Want.MODULES,
    EventKind.OPTIMIZER_CALL: _FUNCTIONS | Want.MODULES,
    EventKind.GC_PAUSE: Want.GC,
    EventKind.RUNTIME_CALL: Want.GPU,
    EventKind.TASK_RUN: Want.ASYNCIO,
    EventKind.COMPILED_GRAPH: Want.COMPILED,
}
"""Which windows have spans of each kind: those that want any of this."""

CATEGORIES = {
    EventKind.OPERATOR: "operator",
    EventKind.ANNOTATION: "annotation",
    EventKind.PYTHON_CALL: "python",
    EventKind.C_CALL: "python",
    EventKind.MODULE_CALL: "module",
    EventKind.OPTIMIZER_CALL: "optimizer",
    EventKind.GC_PAUSE: "gc",
    EventKind.RUNTIME_CALL: "runtime",
    EventKind.TASK_RUN: "asyncio",
    EventKind.COMPILED_GRAPH: "compiled",
}
"""What files that sort spans into categories call each kind."""


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

    @classmethod
    def _missing_(cls, value: object) -> RecordScope | None:
        """A scope that a newer torch has: ``SCOPE_12``."""
        if not isinstance(value, int) or not 0 <= value <= 255:
            return None
        scope = int.__new__(cls, value)
        scope._name_, scope._value_ = f"SCOPE_{value}", value
        return scope


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


class ParameterRole(IntEnum):
    """What a row of ``parameters`` is to its owner."""

    PARAMETER = 0
    GRADIENT = 1
    OPTIMIZER_STATE = 2


class LinkKind(IntEnum):
    """What an arrow of ``links`` joins."""

    FORWARD_BACKWARD = 0
    COLLECTIVE = 1  # of several ranks: from one's call to that of the rank that it waited for


class CompilationKind(IntEnum):
    """What a row of ``compilations`` is."""

    COMPILATION = 0  # of a function that had not been compiled
    RECOMPILATION = 1  # of one that had, because the code that there was did not fit
    GRAPH_BREAK = 2  # where code cannot be part of a graph, so that there are two
    FAILURE = 3  # the function runs as it is


class OriginsKnownFrom(IntEnum):
    """What says of which lines of the program a line of generated code is."""

    NOTHING = 0
    GENERATION = 1  # what torch.compile knew when it generated the code: every operation
    CACHE = 2  # what its cache has kept: a line each, and names of operators


class WaitsFor(IntEnum):
    """What a thread waits for in a system call, as a row of ``thread_samples`` has it."""

    NOTHING = 0  # it computes, or could
    GIL = 1  # Python's lock, which one thread at a time has
    LOCK = 2  # a lock of the program's or of a library
    TIMER = 3  # time to pass
    READINESS = 4  # of files, sockets, pipes: poll, select, epoll
    TRANSFER = 5  # reading, writing, receiving, sending, flushing
    PROCESS = 6  # the end of another process
    OTHER = 7  # any other system call, or one that the kernel does not name
    DISK = 8  # a disk, without a call that says so: pages that have to be read


class GpuKind(IntEnum):
    """What a row of ``gpu`` is; the kinds up to ``SET`` are work."""

    KERNEL = 0
    COPY = 1
    SET = 2
    SYNCHRONISATION = 3
    ANNOTATION = 4  # from the first to the last work that was launched inside one


GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "gpu_user_annotation")
"""By ``GpuKind``: what Chrome traces, and Kineto's activities, call it."""

OVERHEAD_NAMES = {
    0: "Unknown",
    1: "Driver Compiler",
    1 << 16: "Buffer Flush",
    2 << 16: "Instrumentation",
    3 << 16: "Resource",
    4 << 16: "Runtime Triggered Module Loading",
    5 << 16: "Lazy Function Loading",
    6 << 16: "Command Buffer Full",
    7 << 16: "Activity Buffer Request",
    8 << 16: "UVM Activity Init",
}
"""Names that tools look for, by CUpti_ActivityOverheadKind."""


class RuntimeApi(IntEnum):
    """Whose function a row of ``runtime_calls`` called."""

    RUNTIME = 0
    DRIVER = 1


class DeviceType(IntEnum):
    """``c10::DeviceType`` with torch's spelling (c10/core/DeviceType.h); part of torch's files."""

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


DEVICE_NAMES = tuple(
    "privateuseone" if member is DeviceType.PrivateUse1 else member.name.lower()
    for member in DeviceType
)
"""By ``DeviceType``: what ``torch.device`` calls it."""


class Layout(IntEnum):
    """``c10::Layout`` (c10/core/Layout.h)."""

    STRIDED = 0
    SPARSE_COO = 1
    SPARSE_CSR = 2
    MKLDNN = 3
    SPARSE_CSC = 4
    SPARSE_BSR = 5
    SPARSE_BSC = 6
    JAGGED = 7


LAYOUT_NAMES = tuple(
    "_mkldnn" if member is Layout.MKLDNN else member.name.lower() for member in Layout
)
"""By ``Layout``: torch's attributes."""


class MemoryCategory(IntEnum):
    """What memory was for; the numbers are torch's (torch.profiler._memory_profiler.Category)."""

    UNKNOWN = 0
    INPUT = 1
    TEMPORARY = 2
    ACTIVATION = 3
    GRADIENT = 4
    AUTOGRAD_DETAIL = 5
    PARAMETER = 6
    OPTIMIZER_STATE = 7


class MemoryAction(IntEnum):
    """What happened to a block of memory; the numbers are torch's."""

    PREEXISTING = 1  # it was there when the recording started
    CREATE = 2
    INCREMENT_VERSION = 3  # its contents changed
    DESTROY = 4


class ArgumentAccess(IntEnum):
    """What an operator's schemas say of one argument."""

    READS = 0
    WRITES = 1
    UNCLEAR = 2  # no schema fits: a block that is only ever seen like this counts as written
    NO_TENSOR = 3  # not a tensor, or in a list of optional ones, which torch's profiler leaves out


class ArgumentKind(str, Enum):
    """Kind of an argument by its schema; one letter each."""

    NOTHING = "N"  # None, or of a kind that torch's profiler does not record
    TENSOR = "T"
    TENSOR_LIST = "L"
    BOOL = "b"
    INT = "i"
    FLOAT = "f"
    COMPLEX = "c"


class FlowEnd(IntEnum):
    """Which end of which arrow of a Chrome trace an event has."""

    FORWARD = 0
    BACKWARD = 1
    LAUNCH = 2
    DEVICE = 3
    WAITING = 4  # of two ranks in a collective, the one that waited for the other
    AWAITED = 5
