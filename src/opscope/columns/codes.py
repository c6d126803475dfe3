"""Every enumeration: the codes in columns and between Python and native code.

``native/schema/generate_schema.py`` writes them as C++, so this module imports only the standard
library. Codes are stored in files: new members get new numbers.
"""

from __future__ import annotations

from enum import Enum, IntEnum, IntFlag


class EventKind(IntEnum):
    """Kind of an event."""

    OPERATOR = 0  # dispatched by torch: operator, autograd node, TorchScript call
    ANNOTATION = 1  # span named by the user or a library, as with record_function
    PYTHON_CALL = 2  # a Python function
    C_CALL = 3  # a C function called from Python
    MODULE_CALL = 4  # nn.Module.__call__, named after the instance
    OPTIMIZER_CALL = 5  # Optimizer.step of one instance
    GC_PAUSE = 6  # a garbage collection
    RUNTIME_CALL = 7  # a call into a device's runtime or driver, such as cudaLaunchKernel
    TASK_RUN = 8  # part of an asyncio task between two awaits
    COMPILED_GRAPH = 9  # run of the code that torch.compile generated for one graph


class Want(IntFlag):
    """Data that a window requests of the recorder; ``recording/sources.py`` maps options to it."""

    OPERATORS = 1 << 0
    INPUTS = 1 << 1  # shapes, strides and scalars of operators' arguments
    OUTPUTS = 1 << 2  # shapes, strides and scalars of results
    MEMORY = 1 << 3  # allocations and frees
    OVERLOADS = 1 << 4  # operator overload names
    PYTHON = 1 << 5  # Python and C calls
    MODULES = 1 << 6  # nn.Module and optimizer calls only
    GC = 1 << 7  # garbage collections
    ANNOTATIONS = 1 << 8  # spans named by the user
    NEW_THREADS = 1 << 9  # Python calls also of threads that start later
    PROCESS_IDS = 1 << 10  # span ids that are equal in all windows open at the same time
    ASYNCIO = 1 << 11  # runs of asyncio tasks
    FUNCTIONS = 1 << 12  # Python calls without C calls
    OWN_FUNCTIONS = 1 << 13  # Python calls, only of functions in the program's own files
    INNER_OPERATORS = 1 << 14  # operators inside operators; without it only outermost ones
    COMPILED = 1 << 15  # runs of compiled code
    GPU = 1 << 16  # activities of devices, and calls of their runtime
    GPU_SYNC = 1 << 17  # with GPU: which CUDA event a wait is for


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
"""Requests by kind of span: any of them records that kind."""

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
"""Category of each kind in files that have categories."""


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
        """Member for a scope of a newer torch, such as ``SCOPE_12``."""
        if not isinstance(value, int) or not 0 <= value <= 255:
            return None
        scope = int.__new__(cls, value)
        scope._name_, scope._value_ = f"SCOPE_{value}", value
        return scope


class ScalarType(IntEnum):
    """Type of a row of ``scalars``; its ``value`` is text as torch spells it."""

    NONE = 0  # None; the text is ""
    BOOL = 1
    INT = 2
    FLOAT = 3
    COMPLEX = 4
    STRING = 5
    DEVICE = 6
    INT_LIST = 7
    FLOAT_LIST = 8
    BOOL_LIST = 9
    TENSOR_LIST = 10  # only for an empty list of tensors, which has no rows in ``tensors``
    OTHER_LIST = 11  # strings, lists or mixed kinds; text as for OTHER, or "[]"
    # tuple: JSON, see SCALARS; without a text form (object, generator): torch's name of its kind
    OTHER = 12
    # generator): text is torch's name for its kind


class Role(IntEnum):
    """Side of a call on which a tensor or scalar was seen."""

    INPUT = 0
    OUTPUT = 1
    KEYWORD = 2
    INPUT_PART = 3  # a tensor inside an argument that is a tuple or a list of lists
    OUTPUT_PART = 4


class AllocationAction(IntEnum):
    """Action of a row of ``allocations``."""

    ALLOCATE = 0
    FREE = 1
    OUT_OF_MEMORY = 2


class ParameterRole(IntEnum):
    """Relation of a row of ``parameters`` to its owner."""

    PARAMETER = 0
    GRADIENT = 1
    OPTIMIZER_STATE = 2


class LinkKind(IntEnum):
    """Kind of arrow of a row of ``links``."""

    FORWARD_BACKWARD = 0
    COLLECTIVE = 1  # between ranks: from a waiting call to the call of the rank it waited for


class CompilationKind(IntEnum):
    """Kind of a row of ``compilations``."""

    COMPILATION = 0  # of a function not compiled before
    RECOMPILATION = 1  # of a function whose compiled code did not fit
    GRAPH_BREAK = 2  # code that cannot be part of a graph, which splits it in two
    FAILURE = 3  # the function runs uncompiled


class OriginsKnownFrom(IntEnum):
    """Source of the map from lines of generated code to the program's lines."""

    NOTHING = 0
    GENERATION = 1  # torch.compile's data at code generation: every operation
    CACHE = 2  # its cache: one line of the program per line, and operator names


class WaitsFor(IntEnum):
    """Object of a thread's wait in a system call, in ``thread_samples``."""

    NOTHING = 0  # running or ready to run
    GIL = 1  # Python's global lock
    LOCK = 2  # a lock of the program or of a library
    TIMER = 3  # the end of a period of time
    READINESS = 4  # readiness of files, sockets, pipes: poll, select, epoll
    TRANSFER = 5  # reading, writing, receiving, sending, flushing
    PROCESS = 6  # the end of another process
    OTHER = 7  # another system call, or one that the kernel does not name
    DISK = 8  # a disk, without a system call: page faults


class GpuKind(IntEnum):
    """Kind of a row of ``gpu``; the kinds up to ``SET`` are work."""

    KERNEL = 0
    COPY = 1
    SET = 2
    SYNCHRONISATION = 3
    ANNOTATION = 4  # from the first to the last work launched inside an annotation


GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "gpu_user_annotation")
"""Names in Chrome traces and Kineto's activities, by ``GpuKind``."""

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
"""Names by CUpti_ActivityOverheadKind; other tools search for them."""


class RuntimeApi(IntEnum):
    """API whose function a row of ``runtime_calls`` called."""

    RUNTIME = 0
    DRIVER = 1


class DeviceType(IntEnum):
    """``c10::DeviceType`` (c10/core/DeviceType.h), spelled as in torch's files."""

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
"""Names in ``torch.device``, by ``DeviceType``."""


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
"""torch's attribute names, by ``Layout``."""


class MemoryCategory(IntEnum):
    """Purpose of memory; the numbers are torch's (torch.profiler._memory_profiler.Category)."""

    UNKNOWN = 0
    INPUT = 1
    TEMPORARY = 2
    ACTIVATION = 3
    GRADIENT = 4
    AUTOGRAD_DETAIL = 5
    PARAMETER = 6
    OPTIMIZER_STATE = 7


class MemoryAction(IntEnum):
    """Events in the life of a block of memory; the numbers are torch's."""

    PREEXISTING = 1  # existed when the recording started
    CREATE = 2
    INCREMENT_VERSION = 3  # its contents changed
    DESTROY = 4


class ArgumentAccess(IntEnum):
    """Access of an operator to an argument, by its schemas."""

    READS = 0
    WRITES = 1
    UNCLEAR = 2  # no schema fits: a block with only such accesses counts as written
    NO_TENSOR = 3  # not a tensor, or in a list of optional tensors, which torch's profiler omits


class ArgumentKind(str, Enum):
    """Kind of an argument by its schema; one letter each."""

    NOTHING = "N"  # None, or a kind that torch's profiler does not record
    TENSOR = "T"
    TENSOR_LIST = "L"
    BOOL = "b"
    INT = "i"
    FLOAT = "f"
    COMPLEX = "c"


class FlowEnd(IntEnum):
    """End of an arrow of a Chrome trace at an event."""

    FORWARD = 0
    BACKWARD = 1
    LAUNCH = 2
    DEVICE = 3
    WAITING = 4  # the rank in a collective that waited for the other
    AWAITED = 5
