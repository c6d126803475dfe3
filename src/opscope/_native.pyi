"""The recorder's native core, whole."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

WANTS: dict[str, int]
"""Bits of ``wants``, by name."""

class Annotation:
    """A span named by the user; re-entrant, never raises."""

    name: str
    args: str | None
    def __init__(self, name: str, args: str | None = None) -> None: ...
    def __enter__(self) -> Annotation: ...
    def __exit__(self, kind: object, value: object, traceback: object) -> None: ...

def open_window(wants: int, all_threads: bool) -> int: ...
def close_window(window: int) -> None: ...
def pause_window(window: int, paused: bool) -> None: ...
def discard_window(window: int) -> None: ...
def decode(window: int, prefixes: Sequence[str]) -> dict[str, Any]: ...
def set_up_python(
    hidden_folder: str,
    shown_file: str,
    program_file: str,
    module_function: object,
    optimizer_code: object,
    parameter_reader: object,
    watch_optimizers: object,
) -> None: ...
def optimizer_step(optimizer: object) -> None: ...
def guard_fast_annotations(type: object) -> None: ...
def attach_bridge(path: str) -> str: ...
def enter_thread() -> None: ...
def leave_thread() -> None: ...
def emit_ranges(kind: str, with_shapes: bool) -> str: ...
def stop_ranges() -> None: ...
def time_spans(empty_callback: bool) -> float: ...
def set_budget(bytes: int) -> None: ...
def set_tensor_budget(bytes: int) -> None: ...
def fault() -> str: ...
def statistics() -> dict[str, int]: ...
def gc_callback(phase: str, info: Mapping[str, int]) -> None: ...

class ChromeWriter:
    """The rows of a Chrome trace, from columns named ``table.column``; formats without the GIL."""

    def __init__(
        self,
        columns: dict[str, NDArray[Any]],
        *,
        tracks: list[str],
        fragments: list[str],
        dtype_names: list[str],
        header: str,
        footer: str,
        base_ns: int,
    ) -> None: ...
    def next_block(self, size: int) -> NDArray[np.uint8] | None: ...

class PerfettoWriter:
    """The packets of a Perfetto trace, from columns named ``table.column``; as ChromeWriter."""

    def __init__(
        self,
        columns: dict[str, NDArray[Any]],
        *,
        event_tracks: list[int],
        gpu_tracks: list[int],
        counter_tracks: list[int],
        categories: list[str],
        dtype_names: list[str],
        header: bytes,
        base_ns: int,
        first_sequence: int,
    ) -> None: ...
    def next_block(self, size: int) -> NDArray[np.uint8] | None: ...

class ExecutionTraceWriter:
    """The nodes of an execution trace, from one trace of a process after another."""

    def __init__(self, *, chakra: bool) -> None: ...
    def begin(
        self,
        columns: dict[str, NDArray[Any]],
        *,
        schemas: list[str],
        schema_sizes: list[tuple[int, int]],
        kernels: list[tuple[str, str, str]],
        fragments: list[bytes],
        nested: dict[int, tuple[list[str], list[str], list[str]]],
        dtype_names: list[str],
        itemsizes: list[int],
        device_names: list[str],
        base_ns: int,
        has_times: bool,
    ) -> None: ...
    def next_block(self, size: int) -> NDArray[np.uint8] | None: ...

def assign_lanes(columns: dict[str, NDArray[Any]]) -> NDArray[np.int32] | None: ...
def operator_signatures(
    columns: dict[str, NDArray[Any]],
) -> tuple[NDArray[np.int32], NDArray[np.int32], list[str]]: ...
def memory_accounts(
    columns: dict[str, NDArray[Any]], *, accumulate: int, detach: int, add: int
) -> dict[str, dict[str, Any]]: ...
