"""What an instant of a thread or device may have gone to: every cause, and how it reads."""

from __future__ import annotations

from enum import IntEnum


class Cause(IntEnum):
    """Why time passed; in the order in which views list equal times. Native code has it, too."""

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
        """In a few words."""
        return _WORDS[self][0]

    @property
    def meaning(self) -> str:
        """In one sentence, with what to do about it where that is not plain."""
        return _WORDS[self][1]


_WORDS = {
    Cause.OPERATOR: (
        "operators",
        "Operators, or kernels of a device, doing what they are for.",
    ),
    Cause.DISPATCH: (
        "torch around operators",
        "Torch finding the kernel of an operator, its autograd engine, calls of a device's "
        "runtime. Fewer and larger operators have less of it.",
    ),
    Cause.PYTHON: (
        "Python",
        "Python code, and what it calls outside of torch.",
    ),
    Cause.COLLECTION: ("garbage collection", "Python's collector looking for cycles."),
    Cause.IMPORT: ("imports", "Modules being imported, with all that they run."),
    Cause.COMPILATION: ("compilation", "torch.compile making code."),
    Cause.LOADER: (
        "waiting for a loader",
        "A DataLoader had no batch ready, or made one in this process.",
    ),
    Cause.LOCK: (
        "waiting for a lock",
        "A lock, a queue, another thread or another process.",
    ),
    Cause.GIL: (
        "waiting for the GIL",
        "Another thread ran Python meanwhile. Move its work to a process, or into calls that "
        "release the GIL.",
    ),
    Cause.DEVICE: ("waiting for a device", "A device had not finished what was asked for."),
    Cause.COLLECTIVE: ("collectives", "Communication with other ranks, and waiting for them."),
    Cause.IO: ("input and output", "Files, sockets, pipes."),
    Cause.TIMER: ("asleep", "The program asked for time to pass."),
    Cause.MEMORY: (
        "memory",
        "The kernel giving out pages that are used for the first time, and a device's allocator. "
        "Tensors that are kept and written again have none of it.",
    ),
    Cause.DESCHEDULED: (
        "waiting for a processor",
        "Others had the processor: fewer threads, or a quieter machine.",
    ),
    Cause.PROFILER: ("opscope", "Recording itself."),
    Cause.IDLE: ("nothing to do", "Nothing was asked of this thread or device."),
    Cause.COPY: ("copies", "A device moving or setting memory."),
    Cause.BACKWARD: (
        "waiting for a backward pass",
        "The backward pass, which the autograd engine runs on a thread of its own for each device: "
        "the line of that, pt_autograd_0 and on, says what it did.",
    ),
    Cause.UNKNOWN: ("unknown", "Nothing that was recorded says what passed here."),
}

WAITS = (
    Cause.LOADER, Cause.LOCK, Cause.IO, Cause.TIMER, Cause.COLLECTIVE, Cause.BACKWARD,
)  # fmt: skip
"""Causes of which a thread is expected to be off its processor."""
