"""The whole interface of the native core."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeAlias, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

_P = ParamSpec("_P")
_T = TypeVar("_T")

# native/module.cpp: the recorder, its windows and their decoding.

NativeTable = dict[str, NDArray[Any] | tuple[NDArray[np.int64], NDArray[np.int64]]]
"""Columns of a table of the schema; a ragged column is a pair of offsets and values."""

class WindowAccount(TypedDict):
    """Times and loss counts of a window."""

    start_ns: int
    end_ns: int
    end_monotonic_ns: int
    clock_jumped_ns: int
    clock_set_by_ns: int
    dropped_spans: int
    dropped_allocations: int
    dropped_others: int
    recorded_threads: int
    unhooked_threads: int
    process_threads: int
    unreported_frees: int
    unknown_frees: int
    lost_spans: int
    lost_allocations: int
    unmatched_ends: int
    cut_payloads: int
    tensors_not_held: int
    fault: str
    notes: list[tuple[str, str, float]]

class DecodedWindow(TypedDict):
    """Recorded tables by name; ``devices`` is None if devices were not recorded."""

    account: WindowAccount
    tables: dict[str, NativeTable]
    name_offsets: NDArray[np.int64]
    name_text: bytes
    devices: DecodedDevices | None

def new_number() -> int:
    """A number that is unique in this process. Thread-safe."""

def reserve_window() -> int: ...
def open_window(
    wants: int,
    all_threads: bool,
    reserved: int = 0,
    collects: int = 0xFFFFFFFF,
    most_growth_bytes: int = 0xFFFFFFFFFFFFFFFF,
) -> int:
    """Open a window; returns its id.

    Args:
        wants: bits of what to record.
        all_threads: False records only the calling thread.
        reserved: id from :func:`reserve_window`; 0 for a new one.
        collects: bits of ``wants`` to record at first.
        most_growth_bytes: maximum growth of the memory of records while the window is open. Windows
            share records, so the largest value of all open windows applies.
    """

def close_window(window: int) -> None: ...
def pause_window(window: int, paused: bool) -> None: ...
def collect(windows: Sequence[int], wants: int) -> None:
    """Restrict what open windows record to the bits ``wants``, until the next call."""

def snapshot_window(window: int) -> int:
    """Copy an open window to a new closed one, and keep it open. Returns 0 if it is not open."""

def discard_window(window: int) -> None: ...
def decode(window: int, prefixes: Sequence[str]) -> DecodedWindow: ...
def write_log(window: int, file: int) -> int:
    """Write the log of a window to an open file, without the GIL. Returns 0 or an errno."""

def decode_copy(copy: bytes, prefixes: Sequence[str]) -> DecodedWindow: ...

class NothingRecordedError(ValueError):
    """The file has no recorded data yet: its process just began, or ended at that moment."""

def set_up_python(
    hidden_folder: str,
    shown_file: str,
    program_file: str,
    module_function: object,
    optimizer_code: object,
    parameter_reader: object,
    optimizer_hooks: object,
    optimizer_hook: object = None,
    library_marks: Sequence[str] = (),
    library_endings: Sequence[str] = (),
    recorded_functions: Sequence[str] = (),
) -> None: ...
def optimizer_step(optimizer: object) -> None: ...
def guard_fast_annotations(type: object) -> None: ...
def attach_bridge(path: str) -> str: ...
def set_budget(bytes: int) -> None: ...
def set_tensor_budget(bytes: int) -> None: ...
def fault() -> str: ...
def show_profile(is_open: bool) -> None: ...
def wanted() -> int: ...
def record_count() -> int:
    """Number of records of all threads since the start of the process."""

def statistics() -> dict[str, int]: ...
def names_from(first: int) -> list[str]:
    """Names of events of this process, from number ``first`` on."""

def refresh_hooks() -> None: ...
def keep_freed_memory() -> None:
    """Make the allocator of this process keep freed memory for later allocations (glibc only)."""

# native/interpreter/: operation within a Python process.

class Section:
    """A re-entrant lock around calls; unlocked in a forked child.

    A thread inside any section does not wait for another section: it runs concurrently with the
    holder, to avoid a deadlock. Code in a section must allow that.
    """

    def __init__(self) -> None: ...
    def run(self, function: Callable[[], _T], undo: Callable[[], object] | None = None) -> _T:
        """Call ``function``; after an exception call ``undo``, again if it was interrupted."""

class Held:
    """A resource that is on from ``open`` to ``close``, or until this object is destroyed.

    Args:
        begin: switches the resource on.
        end: undoes a complete or partial ``begin``; may be called several times.
        forget: called last, when this object is destroyed or ``begin`` failed; possibly several
            times.
    """

    def __init__(
        self,
        begin: Callable[[], object],
        end: Callable[[], object],
        forget: Callable[[], object] | None = None,
    ) -> None: ...
    def open(self) -> None:
        """Switch on. No effect if open; if interrupted, the resource is off."""
    def close(self) -> None:
        """Switch off. No effect if not open; completes even if interrupted."""
    def run(self, function: Callable[[], _T]) -> _T:
        """Call ``function`` while open."""
    @property
    def is_open(self) -> bool: ...
    @property
    def was_opened(self) -> bool: ...

class AroundCall:
    """A method that calls ``before()``, ``function``, then ``after(first argument, succeeded)``.

    The call of ``function`` and calls inside it are recorded as if the program had made the call.
    """

    def __init__(
        self,
        before: Callable[[], object],
        function: Callable[..., object],
        after: Callable[[Any, bool], object],
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: object, owner: object = None) -> Any: ...

def method(function: Callable[_P, _T], undo: Callable[[Any], object]) -> Callable[_P, _T]:
    """A method that calls ``function``, and ``undo`` of its object if ``function`` raises."""

# native/python/: Python calls, annotations, collections.

class Annotation:
    """A span named by the user; re-entrant, never raises."""

    name: str
    args: str | None
    def __init__(self, name: str, args: str | None = None) -> None: ...
    def __enter__(self) -> Annotation: ...
    def __exit__(self, kind: object, value: object, traceback: object) -> None: ...

def recorded_kernel(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A wrapper of ``function`` whose calls are recorded as operators."""

def recorded_graph(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A wrapper of a function of generated code, whose calls are recorded as runs of a graph.

    Kernels called inside get the lines of the generated code.
    """

def unrecorded(function: Any) -> Any:
    """The function inside such a wrapper; other objects are returned unchanged."""

def python_stacks(names: Mapping[int, str]) -> str:
    """Stacks of all other threads, as faulthandler writes them; ``names``: thread name by ident."""

def gc_callback(phase: str, info: Mapping[str, int]) -> None: ...

# native/gpu/: device activity.

class DeviceAccount(TypedDict):
    """Counts of collected and lost device activities, and the library that collected them."""

    recorded: int
    over_budget: int
    dropped: int
    unfinished: int
    unknown: int
    noise: int
    refused_buffers: int
    launched_outside: int
    without_launch: int
    begun_later: int
    clock_error_ns: float
    clock_is_ours: bool
    library_name: str
    library_path: str
    library_version: int
    missing_kinds: list[str]
    end_without_data_ns: int

class DecodedDevices(TypedDict):
    """Tables of devices by name, with their own names of events."""

    account: DeviceAccount
    tables: dict[str, NativeTable]
    name_offsets: NDArray[np.int64]
    name_text: bytes

def set_gpu_candidates(paths: Sequence[str]) -> None: ...
def set_gpu_budget(buffer_bytes: int, log_bytes: int) -> None: ...
def configure_gpu(may_share: bool = False, also: int = 0) -> str: ...
def note_devices() -> None: ...
def end_noting_devices() -> None: ...
def gpu_is_wanted() -> bool: ...
def pause_gpu(paused: bool) -> str: ...

# native/sampler/: the kernel's counters of threads.

def prepare_thread_samples() -> None:
    """Open the counters' files once, which makes the kernel allocate them; may block."""

def begin_thread_samples(reader: int, is_rank: bool) -> None:
    """Start a reader with this number; the first reader starts the sampling of threads."""

def end_thread_samples(
    reader: int,
) -> tuple[NativeTable, int, int, bool] | None:
    """End a reader. Returns its samples, the sampler's CPU time in ns, the number of samplings, and
    whether samples were lost; None for an unknown reader."""

def thread_sample_readers() -> int:
    """Number of readers that have not ended."""

# native/watch/: the flight recorder's ring, and the program's steps.

class StepAlarm:
    """Selects steps to call a listener for: all from number ``at`` on, and those longer than
    ``own_above_ns`` without waits for a CPU."""

    at: int
    own_above_ns: int

class StepCounter:
    """Counts and times the program's steps; see native/watch/step_counter.h."""

    def __init__(self, watch: Watch | None = None) -> None: ...
    def announced(self) -> None: ...
    def optimizer_stepped(self, optimizer: object, *arguments: object) -> None:
        """Hook for torch; steps of the first optimizer count until ``announced`` is called."""
    def alarm(self, listener: Callable[[int], None]) -> StepAlarm:
        """Call ``listener(duration_ns)`` at the end of the steps that the returned alarm selects.

        On the thread that makes the step; 0 if its begin is unknown. A new alarm selects no step.
        """
    def silence(self) -> None:
        """Remove all listeners."""
    @property
    def count(self) -> int: ...
    @property
    def durations_ns(self) -> list[int]:
        """Durations of the last 200 steps, oldest first."""
    @property
    def own_durations_ns(self) -> list[int]:
        """Durations of the same steps without their thread's waits for a CPU."""
    @property
    def waited_ns(self) -> int | None:
        """Waits of the last step's thread for a CPU; None if the kernel does not count them."""

class Watch:
    """The flight recorder's thread that needs no GIL; see native/watch/watch.h.

    Args:
        last_ns: minimum duration that the ring holds.
        max_bytes: maximum memory of records.
        patience_ns: after this time without a response of Python, the thread writes a dump itself.
        standstill_ns: report after this time without progress; 0: never.
        needs_steps: report a standstill only for programs that make steps.
        memory_jump_bytes: report if resident memory grows this much within ``memory_jump_ns``; 0:
            never.
        memory_jump_ns: period for ``memory_jump_bytes``.
    """

    def __init__(
        self,
        last_ns: int,
        max_bytes: int,
        patience_ns: int,
        standstill_ns: int = 0,
        needs_steps: bool = True,
        memory_jump_bytes: int = 0,
        memory_jump_ns: int = 0,
    ) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def leave_to_parent(self) -> None:
        """In a forked child: ignore its signals. No other method may be called afterwards."""
    def wait(self, timeout_ns: int) -> tuple[str, int, int]:
        """Wait for a report, without the GIL. Returns its kind (nothing, stopped, rotate, request,
        signal, standstill, memory), its value, and its age in ns."""
    def request(self, number: int, reason: str) -> bool:
        """Request a dump; ``reason`` is JSON. False if too many requests wait."""
    def take_answered(self) -> list[int]:
        """Numbers of requests whose dumps this thread wrote, once each."""
    def step_ended(self) -> None: ...
    def catch_signal(self, number: int) -> int: ...
    def ignore_signal(self, number: int) -> None: ...
    def arm(self, folder: str, facts: str, places: bytes, command: Sequence[str]) -> None:
        """Set the input of a dump in case Python does not respond; used once."""
    def write_spool_files(
        self, window: int, folder: str, facts: str, reason: str, places: bytes, stacks: str
    ) -> int:
        """Write the facts about a dump and its log, without the GIL. Returns 0 or an errno."""
    def add_window(self, window: int) -> None: ...
    def take_windows(self) -> list[int]: ...
    @property
    def windows(self) -> list[int]: ...
    @property
    def held_ns(self) -> int: ...
    @property
    def cut_by_memory(self) -> int: ...
    @property
    def emergencies(self) -> int: ...
    @property
    def processor_ns(self) -> int: ...

def folder_bytes(folder: str, prefix: str, suffix: str) -> int:
    """Size of files in subfolders whose names have this prefix or suffix, without the GIL."""

def hand_to_writer(command: Sequence[str]) -> int:
    """Start the process that makes a trace of a complete spool, and that outlives this process.

    The last word of ``command`` is the spool. Returns 0 or an errno.
    """

# native/streams/: recordings in files.

def begin_stream(window: int, path: str, max_bytes: int, about: str, is_ring: bool = False) -> None:
    """Write records to a new file from now on, until this window ends.

    The file of a ring holds the blocks that its windows need; a streamed recording replaces it.
    """

def describe_ring(about: str, note: str) -> bool:
    """Replace the text about the ring in its file, and add ``note`` unless it is empty.

    False if no ring has a file, or the file is full.
    """

def stream_state() -> tuple[str, bool, bool]:
    """File of the running stream (empty: none), whether it is a ring, and whether it was full."""

def note_in_stream(text: str) -> None:
    """Add a text to the running stream; no effect without one."""

def end_stream(window: int) -> None: ...
def discard_stream(path: str) -> None: ...

class DecodedPiece(DecodedWindow):
    late: dict[str, Any]
    is_last: bool
    missing_blocks: int

class StreamDescription(TypedDict):
    gaps: list[tuple[int, int, int]]
    started_ns: int
    stopped_ns: int
    ring_ended: bool
    has_end: bool
    missing_blocks: int
    process_id: int
    identity: str
    first_loss_ns: int | None
    last_loss_ns: int | None

class StreamedLog:
    """The file of a streamed recording."""

    @property
    def about(self) -> str: ...
    @property
    def notes(self) -> list[str]: ...
    def describe(self) -> StreamDescription: ...
    def decode(self, prefixes: Sequence[str]) -> DecodedWindow: ...
    def write_copy(self, file: int) -> int:
        """Write the log of a dump to an open file, without the GIL. Returns 0 or an errno."""

def read_stream(path: str) -> StreamedLog: ...

class PieceDecoder:
    """Decodes the file of a recording piece by piece, during or after the recording."""

    def __init__(self, path: str, prefixes: Sequence[str]) -> None: ...
    def restore(self, state: bytes, name_offsets: Sequence[int], name_text: bytes) -> None: ...
    def state(self) -> bytes: ...
    def decode(self, records: int, margin_ns: int, is_last: bool) -> DecodedPiece | None:
        """Decode the next piece, of about ``records`` records; None if there are too few.

        Only of records older than ``margin_ns``, unless ``is_last``.
        """

    def mark_spent(self) -> None:
        """Free the file space of the decoded pieces, which are saved elsewhere."""

    def close(self) -> None: ...

def allocation_ids(
    time_ns: NDArray[np.int64],
    impl: NDArray[np.uint64],
    storage: NDArray[np.uint64],
    device: NDArray[np.uint16],
    is_free: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], int]:
    """Allocation id of each sighting of a storage, and the number of allocations without a free.

    Rows of allocations and frees have impl 0.
    """

# native/columns/: passes over whole columns.

def row_order(columns: list[NDArray[np.int64]]) -> NDArray[np.int64]: ...
def row_groups(
    columns: list[NDArray[np.int64]],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Group number of each row, the first row of each group, and its size.

    Equal rows form a group; groups are numbered in the order of their values.
    """

def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]: ...
def with_reused_memory(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call ``function`` while NumPy reuses the memory of freed arrays; returns its result."""

def reused_memory() -> tuple[int, int]:
    """Bytes of reusable memory in arrays, and bytes free for :func:`with_reused_memory`."""

# native/nesting/: parents, and the innermost span at each time.

def nearest_ancestor(
    parents: NDArray[np.signedinteger[Any]], keep: NDArray[np.bool_]
) -> NDArray[np.signedinteger[Any]]: ...
def outermost_ancestor(
    parents: NDArray[np.signedinteger[Any]], keep: NDArray[np.bool_]
) -> NDArray[np.signedinteger[Any]]: ...
def depths(parents: NDArray[np.signedinteger[Any]]) -> NDArray[np.int32]: ...
def subtree_sums(
    parents: NDArray[np.signedinteger[Any]], own: NDArray[np.int64]
) -> NDArray[np.int64]: ...
def minus_children(
    parents: NDArray[np.signedinteger[Any]],
    value: NDArray[np.int64],
    counted: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]: ...
def contain(
    thread: NDArray[np.int64],
    start_ns: NDArray[np.int64],
    end_ns: NDArray[np.int64],
    rounding_ns: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Innermost earlier span of the thread that contains each span (-1: none), and overlaps in ns.

    A span overlaps another if it begins inside it and ends more than ``rounding_ns`` after it.
    """

def nest_on_lines(
    start_ns: NDArray[np.int64],
    duration_ns: NDArray[np.int64],
    parent: NDArray[np.int32],
    line: NDArray[np.int32],
    lines: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Parent of each span by time (-1: none), its self time, and the spans that do not nest.

    Spans are in order of start.
    The last two columns are rows of spans that do not nest, and the end of their self time; the
    last value of a row counts. Spans on lines other than the first ``lines`` get -1 and 0.
    """

# native/account/: the cause of every instant.

def causes_of_events(
    kind: NDArray[np.uint8],
    scope: NDArray[np.uint8],
    name: NDArray[np.int32],
    label: NDArray[np.int32],
    around: NDArray[np.int32],
    by_label: NDArray[np.int8],
    is_engine: NDArray[np.bool_],
) -> NDArray[np.int8]:
    """Cause of each event's self time; -1: that of the event around it.

    ``by_label``: cause by label, -1 for none. ``is_engine``: whether a name is one of the autograd
    engine; the last entry, for events without a name, is False.
    """

IntervalColumns: TypeAlias = tuple[
    NDArray[np.int64],
    int,
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.bool_],
    NDArray[np.int64],
    NDArray[np.bool_],
]
"""``opscope.analysis.account.processor.Intervals``, attribute by attribute."""

class TimeOfThreads:
    """The time of threads within a period, divided by cause."""

    def __init__(
        self,
        start_ns: NDArray[np.int64],
        took_ns: NDArray[np.int64],
        parent: NDArray[np.int32],
        causes: NDArray[np.int8],
        threads: Sequence[
            tuple[NDArray[np.int32], NDArray[np.int64], IntervalColumns | None, bool]
        ],
        steps: tuple[NDArray[np.int64], NDArray[np.int64]],
        transfers: NDArray[np.int64],
        passes: NDArray[np.int64],
        from_ns: int,
        to_ns: int,
        cost_ns: int,
    ) -> None:
        """Divide the time from ``from_ns`` to ``to_ns``.

        Args:
            start_ns, took_ns, parent, causes: columns of spans.
            threads: of each thread the rows of its spans in order of start, the times at which
                pieces end in order, intervals from its samples, and whether it is the main thread.
            steps: starts in order, and ends.
            transfers: starts and ends of transfers.
            passes: starts and ends of backward passes.
            cost_ns: recording overhead at each begin and end of a span.
        """

    def sums(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64], int]]:
        """For each thread: ns by step and cause (first row: outside steps), the possible error of
        these, and the ns in which a sample showed the thread running."""

    def sums_of_groups(
        self, thread: int, group: NDArray[np.int32], groups: int
    ) -> NDArray[np.int64]:
        """Ns of a thread in steps, by group of the innermost span (last: no span) and by cause."""

    def cut(self) -> list[tuple[NDArray[np.int64], ...]]:
        """Pieces of every thread before samples are applied: start, length, innermost span (-1:
        none), cause, and whether the piece is a gap."""

    def pieces(self, thread: int, wanted: Sequence[int]) -> list[tuple[NDArray[np.int64], ...]]:
        """Pieces of one thread with the causes ``wanted``: columns step, event, cause, ns, start
        and end; one tuple for each way in which a piece is divided."""

# native/attribution/: module, part of a step and source line of each event.

EventArrays: TypeAlias = tuple[
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.uint8],
    NDArray[np.uint8],
    NDArray[np.int64],
    NDArray[np.int32],
]
"""Columns of events: parent, thread, name, kind, scope, sequence_number, forward_thread."""

class ModuleCalls(TypedDict):
    """``call``, ``is_backward`` and ``place`` have shape (events,), the others (places,)."""

    call: NDArray[np.int32]
    is_backward: NDArray[np.bool_]
    place: NDArray[np.int32]
    label: NDArray[np.int32]
    around: NDArray[np.int32]

def module_calls(
    events: EventArrays,
    thread_number: NDArray[np.int64],
    label: NDArray[np.int32],
    maker: NDArray[np.int32],
    store: int,
    is_engine: NDArray[np.bool_],
) -> ModuleCalls:
    """Module call that each event belongs to (-1: none), and places of calls.

    Calls with one label inside calls of one place share a place; places have the order of their
    first calls. ``maker``: forward operator of backward spans, if arrows give it. ``store``: name
    of spans that store a gradient, -1 for none. ``is_engine`` as in :func:`causes_of_events`.
    """

def phases(
    events: EventArrays,
    threads: int,
    start_ns: NDArray[np.int64],
    took_ns: NDArray[np.int64],
    by_name: NDArray[np.int8],
    codes: tuple[int, int, int, int],
) -> tuple[NDArray[np.int8], NDArray[np.bool_], NDArray[np.int8]]:
    """Phase of each event, whether it enters a phase, and the phase around it.

    ``by_name``: phase by name, -1 for none; last for events without a name. ``codes``: codes of
    forward, backward, optimizer and garbage collection.
    """

def listing(
    parent: NDArray[np.int32],
    kind: NDArray[np.uint8],
    is_async: NDArray[np.bool_],
    label: NDArray[np.int32],
    group_of_label: NDArray[np.int32],
    is_hidden: NDArray[np.bool_],
    hides_collections: bool,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int32]]:
    """Whether an event is listed, whether it is listed and synchronous, and its nearest synchronous
    listed ancestor.

    An only child whose label has the same group as its parent's is merged into the parent.
    ``is_hidden``: labels that are not listed.
    """

ListedArrays: TypeAlias = tuple[NDArray[np.bool_], NDArray[np.bool_]]
"""Result of ``listing`` for each event: listed; listed and synchronous."""

def stack_sources(
    events: EventArrays,
    thread_number: NDArray[np.int64],
    listed: ListedArrays,
    makers: bool,
) -> NDArray[np.int32]:
    """Forward operator of each backward event; for other events the event itself; -1 for none.

    If operators share a sequence number, the first; with ``makers`` the last, which created the
    node, or the outermost operator with that number around the last.
    """

CallArrays: TypeAlias = tuple[
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.bool_],
    NDArray[np.bool_],
]
"""For each event: caller, line in the caller, frame, whether a function of the program called it,
and whether it is one."""

def located_events(
    events: EventArrays,
    thread_number: NDArray[np.int64],
    listed: ListedArrays,
    calls: CallArrays,
) -> NDArray[np.int32]:
    """Innermost event around each with a line of the program; -1 for none."""

def lines_of_events(
    events: EventArrays,
    thread_number: NDArray[np.int64],
    listed: ListedArrays,
    calls: CallArrays,
    first_line: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Frame and line of each event from ``located_events``, -1: none; ``first_line`` by frame."""

# native/graph/: dependencies between nodes.

def earliest_ends(
    before: NDArray[np.int64],
    delay_ns: NDArray[np.int64],
    duration_ns: NDArray[np.int64],
    start_ns: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Earliest end of each node, and the dependency that determines it (-1: none).

    A node begins when all its dependencies have ended and their delays have passed. ``before`` has
    three columns of dependencies, -1 for none; dependencies have lower numbers than their node.
    """

def latest_ends(
    before: NDArray[np.int64],
    delay_ns: NDArray[np.int64],
    duration_ns: NDArray[np.int64],
    end_ns: int,
) -> NDArray[np.int64]:
    """Latest end of each node with which no node ends after ``end_ns``."""

# native/memory/: owners of memory.

def operator_signatures(
    columns: dict[str, NDArray[Any]],
) -> tuple[NDArray[np.int32], NDArray[np.int32], list[str]]: ...
def memory_accounts(
    columns: dict[str, NDArray[Any]], *, accumulate: int, detach: int, add: int
) -> dict[str, dict[str, Any]]: ...

# native/writers/: files of other tools.

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
    @property
    def rows_written(self) -> int: ...
    def next_block(self, size: int) -> NDArray[np.uint8] | None: ...

class PerfettoWriter:
    """Packets of a Perfetto trace, from columns named ``table.column``; formats without the GIL."""

    def __init__(
        self,
        columns: dict[str, NDArray[Any]],
        *,
        event_tracks: list[int],
        gpu_tracks: list[int],
        counter_tracks: list[int],
        categories: list[str],
        dtype_names: list[str],
        gpu_numbers: list[str],
        header: bytes,
        base_ns: int,
        first_sequence: int,
    ) -> None: ...
    @property
    def rows_written(self) -> int: ...
    def next_block(self, size: int) -> NDArray[np.uint8] | None: ...

class ExecutionTraceWriter:
    """Nodes of an execution trace, from the traces of one process in turn."""

    def __init__(self) -> None: ...
    def begin(
        self,
        columns: dict[str, NDArray[Any]],
        *,
        schemas: list[str],
        schema_sizes: list[tuple[int, int]],
        kernels: list[tuple[str, str, str]],
        fragments: list[str],
        nested: dict[int, tuple[list[str], list[str], list[str]]],
        dtype_names: list[str],
        itemsizes: list[int],
        device_names: list[str],
        base_ns: int,
        has_times: bool,
    ) -> None: ...
    @property
    def rows_written(self) -> int: ...
    def next_block(self, size: int) -> NDArray[np.uint8] | None: ...

def assign_lanes(columns: dict[str, NDArray[Any]], *, tracks: int) -> NDArray[np.int32] | None: ...

# native/parsers/: Chrome JSON to columns.

class PickledValue:
    """One value in a :class:`PlainPickle`."""

class PlainPickle:
    """Reader of pickles of plain data: it imports, creates and calls nothing from them.

    Reads without the GIL. ``data`` must not change while this object exists.

    Raises:
        ValueError: the pickle is damaged, has other than plain data, or too many containers.
    """

    def __init__(self, data: NDArray[np.uint8]) -> None: ...
    @property
    def root(self) -> PickledValue: ...
    def get(self, dictionary: PickledValue, key: str) -> PickledValue:
        """Value of a key; None if missing, or if ``dictionary`` is another value."""

    def items(self, list: PickledValue) -> list[PickledValue]:
        """Items of a list or tuple; empty for other values."""

    def value(self, value: PickledValue) -> bool | int | float | str | None:
        """The value as a Python object; None for a container."""

    def text(self, row: int) -> str: ...
    def list(self, row: int) -> PickledValue: ...
    def column(
        self, list: PickledValue, key: str, kind: str = "integer", otherwise: int = -1
    ) -> NDArray[np.int64]:
        """Values of a key in a list of dictionaries: integers, or rows of texts or lists."""

class JsonProblem(TypedDict):
    """Why and where a text is not JSON; ``is_at_end``: it was cut off."""

    what: str
    line: int
    column: int
    is_at_end: bool

class ChromeReader:
    """Events of a Chrome JSON, as columns; reads without the GIL.

    ``meaning_of`` is called once for each category (``storage/chrome/vocabulary.py``). ``mends``:
    repair unescaped quotes in names. From a text that was cut off, complete events are read.
    """

    def __init__(
        self, vocabulary: Mapping[str, Any], meaning_of: Callable[[str], object], mends: bool
    ) -> None: ...
    def add(self, piece: bytes) -> bool:
        """Read the next bytes, valid UTF-8. False after an error, see ``problem``."""

    def finish(self) -> bool: ...
    def take(self) -> dict[str, Any]:
        """Return and forget the columns read so far."""

    @property
    def problem(self) -> JsonProblem | None: ...
    @property
    def has_events(self) -> bool: ...
    @property
    def is_cut(self) -> bool: ...
    @property
    def mended_names(self) -> int: ...
    @property
    def others(self) -> str:
        """JSON of the keys beside the events; empty if the file is not an object."""
