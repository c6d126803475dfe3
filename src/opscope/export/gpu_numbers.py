"""What is shown with a piece of device work in the Perfetto format, under Kineto's names."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.analysis.kernel_occupancy import kernel_occupancy
from opscope.columns.trace_data import TraceData
from opscope.timeline.listing import COPY, KERNEL, SET

Values = npt.NDArray[np.int64]

_ABSENT = np.int64(-1)


def gpu_numbers(trace: TraceData) -> dict[str, Values]:
    """Columns by name, of shape (gpu rows,); -1 where a row has no such number."""
    gpu = trace.table("gpu")
    kind = gpu["kind"]
    # Every kernel uses registers, so 0 means that the number was not recorded.
    measured = (kind == KERNEL) & (gpu["registers_per_thread"] > 0)
    in_graph = gpu["graph_node"] != 0
    numbers = {
        "correlation": _where(gpu["correlation_id"] > 0, gpu["correlation_id"]),
        "stream": _where(gpu["stream"] >= 0, gpu["stream"]),
        "bytes": _where((kind == COPY) | (kind == SET), gpu["size_bytes"]),
        "registers per thread": _where(measured, gpu["registers_per_thread"]),
        "shared memory": _where(measured, gpu["shared_memory_bytes"]),
        "graph id": _where(in_graph, gpu["graph"]),
        "graph node id": _where(in_graph, gpu["graph_node"]),
    }
    occupancy = kernel_occupancy(trace)
    if occupancy is not None:
        percent = np.rint(occupancy.occupancy * 100)
        numbers["est. achieved occupancy %"] = _where(measured, percent)
    return {name: values for name, values in numbers.items() if (values != _ABSENT).any()}


def _where(present: npt.NDArray[np.bool_], values: npt.NDArray[np.generic]) -> Values:
    return np.where(present, values.astype(np.int64), _ABSENT)
