"""The formats that a trace can be exported in, by name."""

from __future__ import annotations

import os
from collections.abc import Callable

from opscope.errors import UsageError
from opscope.export.chakra import write_chakra
from opscope.export.chrome.writer import write_chrome_trace
from opscope.export.execution_trace import write_execution_trace
from opscope.export.memory_timeline import write_memory_timeline
from opscope.export.perfetto import write_perfetto
from opscope.export.speedscope import write_speedscope
from opscope.export.stacks import write_stacks
from opscope.trace.trace import Trace

Writer = Callable[[Trace, str], object]

WRITERS: dict[str, Writer] = {
    "chrome": write_chrome_trace,
    "perfetto": write_perfetto,
    "speedscope": write_speedscope,
    "stacks": write_stacks,
    "execution-trace": write_execution_trace,
    "chakra": write_chakra,
    "memory-timeline": write_memory_timeline,
}


def export_trace(trace: Trace, format: str, path: str | os.PathLike[str]) -> None:
    """Write this trace for other tools.

    Args:
        trace: any.
        format: ``chrome``, ``perfetto``, ``speedscope``, ``stacks``, ``execution-trace``,
            ``chakra`` or ``memory-timeline``.
        path: of the file, which is replaced; a name that ends in ``.gz`` compresses it.

    Raises:
        UsageError: there is no such format, the trace has nothing that it could show, or ``path``
            cannot be written.
    """
    writer = WRITERS.get(format)
    if writer is None:
        raise UsageError(
            f"There is no export format {format!r}. Choose one of: {', '.join(WRITERS)}."
        )
    writer(trace, os.fspath(path))
