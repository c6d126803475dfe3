"""Causes of time of a thread or device, with titles and explanations."""

from __future__ import annotations

from enum import IntEnum


class Cause(IntEnum):
    """Why time passed, in the order in which views list equal times. Native code has a copy."""

    OPERATOR = 0
    DISPATCH = 1
    PYTHON = 2
    COLLECTION = 3
    IMPORT = 4
    COMPILATION = 5
    LOADER = 6
    LOCK = 7
    GIL = 8
    DEVICE = 9
    COLLECTIVE = 10
    IO = 11
    TIMER = 12
    MEMORY = 13
    DESCHEDULED = 14
    PROFILER = 15
    IDLE = 16
    COPY = 17
    UNKNOWN = 18
    BACKWARD = 19

    @property
    def title(self) -> str:
        """Short name."""
        return _WORDS[self][0]

    @property
    def meaning(self) -> str:
        """One sentence: what it is and, if not obvious, what to do about it."""
        return _WORDS[self][1]


_WORDS = {
    Cause.OPERATOR: (
        "operators",
        "Operators and device kernels that compute.",
    ),
    Cause.DISPATCH: (
        "torch call overhead",
        "Dispatch in torch, the autograd engine, calls of a device's runtime. Fewer and larger "
        "operators reduce it.",
    ),
    Cause.PYTHON: (
        "Python",
        "Python code, and libraries outside torch that it calls.",
    ),
    Cause.COLLECTION: ("garbage collection", "Python's garbage collector."),
    Cause.IMPORT: ("imports", "Imports of modules."),
    Cause.COMPILATION: ("compilation", "torch.compile compiles."),
    Cause.LOADER: (
        "waiting for a loader",
        "The DataLoader had no batch ready, or built one in this process.",
    ),
    Cause.LOCK: (
        "waiting for a lock",
        "Waiting for a lock, a queue, another thread or another process.",
    ),
    Cause.GIL: (
        "waiting for the GIL",
        "Another thread ran Python. Move its work to a process, or into calls that release the "
        "GIL.",
    ),
    Cause.DEVICE: ("waiting for a device", "The device had not finished its work."),
    Cause.COLLECTIVE: (
        "collectives",
        "Communication with other ranks, including waiting for them.",
    ),
    Cause.IO: ("input and output", "Files, sockets, pipes."),
    Cause.TIMER: ("asleep", "The program called sleep."),
    Cause.MEMORY: (
        "memory",
        "First use of memory pages, and the allocator of a device. Reusing tensors avoids it.",
    ),
    Cause.DESCHEDULED: (
        "waiting for a CPU",
        "The CPU ran other threads or programs. Use fewer threads, or a less busy machine.",
    ),
    Cause.PROFILER: ("opscope", "The overhead of opscope's recording."),
    Cause.IDLE: ("idle", "This thread or device had no work."),
    Cause.COPY: ("copies", "The device copies or sets memory."),
    Cause.BACKWARD: (
        "waiting for a backward pass",
        "The autograd engine runs the backward pass on its own thread for each device; see the "
        "rows pt_autograd_0 and following.",
    ),
    Cause.UNKNOWN: ("unknown", "No recorded data explains this time."),
}

WAITS = (
    Cause.LOADER, Cause.LOCK, Cause.IO, Cause.TIMER, Cause.COLLECTIVE, Cause.BACKWARD,
)  # fmt: skip
"""Causes during which a thread is normally not on a CPU."""
