"""What a recording collects: one frozen object, made once, passed down."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class RecordingOptions:
    """What to collect. Each step up costs more per span; ``docs/measurements.md`` has the figures.

    Attributes:
        operators: torch operators, autograd nodes, TorchScript calls.
        annotations: spans named with record_function.
        shapes: arguments of operators: shapes, strides, dtypes, scalars.
        outputs: the same of results (needed by execution traces).
        memory: allocations and frees.
        stack: Python and C calls.
        modules: nn.Module and optimizer calls only.
        overloads: operator overload names.
        gc_pauses: garbage collections, as spans.
        all_threads: every thread of the process; otherwise only the one that starts.
        new_threads: Python calls also of threads that begin during the recording.
        process_ids: give spans the ids that they have in every other recording that is under way.
        gpu: what CUDA devices do, and the calls of their runtime.
        gpu_sync: with it, which call recorded the CUDA event that a wait is for.
        cuda_events: where CUPTI cannot be used, annotations timed by CUDA events instead.
    """

    operators: bool = True
    annotations: bool = True
    shapes: bool = False
    outputs: bool = False
    memory: bool = False
    stack: bool = False
    modules: bool = False
    overloads: bool = False
    gc_pauses: bool = True
    all_threads: bool = True
    new_threads: bool = True
    process_ids: bool = False
    gpu: bool = False
    gpu_sync: bool = False
    cuda_events: bool = False

    _NATIVE = {
        "operators": "OPERATORS",
        "annotations": "ANNOTATIONS",
        "shapes": "INPUTS",
        "outputs": "OUTPUTS",
        "memory": "MEMORY",
        "stack": "PYTHON",
        "modules": "MODULES",
        "overloads": "OVERLOADS",
        "gc_pauses": "GC",
        "new_threads": "NEW_THREADS",
        "process_ids": "PROCESS_IDS",
        "gpu": "GPU",
        "gpu_sync": "GPU_SYNC",
    }

    def union(self, other: RecordingOptions) -> RecordingOptions:
        """What either asks for."""
        return RecordingOptions(
            **{f.name: getattr(self, f.name) or getattr(other, f.name) for f in fields(self)}
        )

    def native_wants(self, bits: dict[str, int]) -> int:
        """These options as the recorder's bit mask; ``bits`` maps its names to values."""
        return sum(
            bits[self._NATIVE[field.name]]
            for field in fields(self)
            if field.name in self._NATIVE and getattr(self, field.name)
        )
