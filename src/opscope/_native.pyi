"""The recorder's native core, whole."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeAlias, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

_P = ParamSpec("_P")
_T = TypeVar("_T")

# native/module.cpp: the recorder, its windows and what is decoded of them.

NativeTable = dict[str, NDArray[Any] | tuple[NDArray[np.int64], NDArray[np.int64]]]
"""The columns that the schema promises; ragged ones are offsets and values."""

class WindowAccount(TypedDict):
    """What is known of a window beside its tables."""

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
    unheard_frees: int
    unknown_frees: int
    lost_spans: int
    lost_allocations: int
    unmatched_ends: int
    cut_payloads: int
    tensors_not_held: int
    fault: str
    notes: list[tuple[str, str, float]]

class DecodedWindow(TypedDict):
    """The recorded tables, by name; ``devices`` where they were recorded."""

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
    """``most_growth_bytes``: so much more memory than now records may take while it is open.

    Of several that are open the one that may have most decides, as they have the same records.
    """

def close_window(window: int) -> None: ...
def pause_window(window: int, paused: bool) -> None: ...
def collect(windows: Sequence[int], wants: int) -> None:
    """Have open windows collect only part of what they want, until told otherwise."""

def snapshot_window(window: int) -> int:
    """A closed window with what this one has so far, which goes on; 0 if there is none."""

def discard_window(window: int) -> None: ...
def decode(window: int, prefixes: Sequence[str]) -> DecodedWindow: ...
def write_log(window: int, file: int) -> int:
    """The log of a window as bytes into an open file, without the GIL; 0, or what went wrong as an
    errno."""

def decode_copy(copy: bytes, prefixes: Sequence[str]) -> DecodedWindow: ...

class NothingRecordedError(ValueError):
    """A process has only begun to record, or came to an end then."""

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
    """Of all threads that there are, ever."""

def statistics() -> dict[str, int]: ...
def names_from(first: int) -> list[str]:
    """The names of events that this process has met, from a number on."""

def refresh_hooks() -> None: ...
def keep_freed_memory() -> None:
    """Have this process keep memory that is freed, for what is allocated next; with glibc."""

# native/interpreter/: living in a Python process.

class Section:
    """Code that one thread at a time runs; free in a forked child.

    A thread may enter again what it is in, and one that is in any section does not wait for another
    but runs concurrently with the holder, to avoid a deadlock. The code that runs here must allow
    that.
    """

    def __init__(self) -> None: ...
    def run(self, function: Callable[[], _T], undo: Callable[[], object] | None = None) -> _T:
        """Call ``function``; after an exception ``undo``, again if that is interrupted."""

class Held:
    """Something that is on from ``open`` to ``close`` or the end of this object.

    Args:
        begin: switches on.
        end: undoes as much of it as was done, any number of times.
        forget: comes last, when this object ends or its opening failed; likewise.
    """

    def __init__(
        self,
        begin: Callable[[], object],
        end: Callable[[], object],
        forget: Callable[[], object] | None = None,
    ) -> None: ...
    def open(self) -> None:
        """Without effect while open; off again if it is interrupted."""
    def close(self) -> None:
        """Without effect while not open; done even if it is interrupted."""
    def run(self, function: Callable[[], _T]) -> _T:
        """Call ``function`` while open."""
    @property
    def is_open(self) -> bool: ...
    @property
    def was_opened(self) -> bool: ...

class AroundCall:
    """A method: ``before()``, ``function``, then ``after`` with its first argument and success.

    What ``function`` is and calls is recorded as if the program had called it itself.
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
    """A method: ``function`` and, if an exception leaves it, ``undo`` of the object."""

# native/python/: Python calls, annotations, collections.

class Annotation:
    """A span named by the user; re-entrant, never raises."""

    name: str
    args: str | None
    def __init__(self, name: str, args: str | None = None) -> None: ...
    def __enter__(self) -> Annotation: ...
    def __exit__(self, kind: object, value: object, traceback: object) -> None: ...

def recorded_kernel(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A wrapper of ``function`` that records calls as operators while a window records
    operators."""

def recorded_graph(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Likewise a function of generated code, as a run of a graph; what it calls has its lines."""

def unrecorded(function: Any) -> Any:
    """The function behind one of these; anything else as it is."""

def python_stacks(names: Mapping[int, str]) -> str:
    """What all other threads are running, as faulthandler says it; ``names`` by ``ident``."""

def gc_callback(phase: str, info: Mapping[str, int]) -> None: ...

# native/gpu/: what devices do.

class DeviceAccount(TypedDict):
    """What is known of what was collected from devices, and by which library."""

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
    unheard_ns: int

class DecodedDevices(TypedDict):
    """Devices' tables, by name, with names of their own."""

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

# native/sampler/: what the kernel counts of threads.

def prepare_thread_samples() -> None:
    """Let the kernel preallocate our files; this blocks once."""

def begin_thread_samples(reader: int, is_rank: bool) -> None:
    """Have threads looked at for a reader with this number, unless they are already."""

def end_thread_samples(
    reader: int,
) -> tuple[NativeTable, int, int, bool] | None:
    """What was seen since then, nanoseconds of a processor that took, how often threads were looked
    at, and whether that was less than it should have been. None for a number that is no reader's,
    or no more."""

def thread_sample_readers() -> int:
    """How many have not ended."""

# native/watch/: the flight recorder's ring, and the program's steps.

class StepAlarm:
    """Which steps a listener is called for: from number ``at`` on every one, and those that take
    longer than ``own_above_ns`` without waiting for a CPU."""

    at: int
    own_above_ns: int

class StepCounter:
    """The program's steps; see native/watch/step_counter.h."""

    def __init__(self, watch: Watch | None = None) -> None: ...
    def announced(self) -> None: ...
    def optimizer_stepped(self, optimizer: object, *arguments: object) -> None:
        """A hook of torch's; steps of the first optimizer count until one is announced."""
    def alarm(self, listener: Callable[[int], None]) -> StepAlarm:
        """Call ``listener`` at the end of steps that the alarm says, on the thread that makes them,
        with what the step took in nanoseconds; 0 if its beginning is unknown. Initially none.
        """
    def silence(self) -> None:
        """Call no listener any more."""
    @property
    def count(self) -> int: ...
    @property
    def durations_ns(self) -> list[int]:
        """Of the last 200, oldest first."""
    @property
    def own_durations_ns(self) -> list[int]:
        """Likewise, without what their thread waited for a CPU."""
    @property
    def waited_ns(self) -> int | None:
        """The last one's thread for a processor; None where the kernel does not count that."""

class Watch:
    """The flight recorder's thread that needs no GIL; see native/watch/watch.h.

    Args:
        last_ns: what the ring is to hold at least.
        max_bytes: of memory for what is recorded.
        patience_ns: how long Python may take to come for news before it is acted upon without it.
        standstill_ns: without progress is news; 0: never.
        needs_steps: only of programs that make steps.
        memory_jump_bytes: more resident memory within ``memory_jump_ns`` is news; 0: never.
        memory_jump_ns: see there.
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
        """In a forked child: ignore its signals; nothing else may be done with it."""
    def wait(self, timeout_ns: int) -> tuple[str, int, int]:
        """News, its value and how long ago it was noticed, without the GIL: nothing, stopped,
        rotate, asked, signal, ..."""
    def ask(self, number: int, reason: str) -> bool:
        """Whether it will be dealt with; ``reason`` is JSON."""
    def take_answered(self) -> list[int]:
        """Numbers of what was asked for and written without Python, once each."""
    def step_ended(self) -> None: ...
    def hear_signal(self, number: int) -> int: ...
    def ignore_signal(self, number: int) -> None: ...
    def arm(self, folder: str, facts: str, places: bytes, command: Sequence[str]) -> None:
        """What to write from where Python does not answer; used once."""
    def write_spool_files(
        self, window: int, folder: str, facts: str, reason: str, places: bytes, stacks: str
    ) -> int:
        """What is known of a dump, and its log, without the GIL; 0, or an errno."""
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
    """Of the files in folders within it whose names begin or end so, without the GIL."""

def hand_to_writer(command: Sequence[str]) -> int:
    """Begin the process that makes a trace of a spool that is whole, and that outlives this one; 0,
    or an errno. The last word is the spool."""

# native/streams/: recordings in files.

def begin_stream(window: int, path: str, max_bytes: int, about: str, is_ring: bool = False) -> None:
    """What is recorded from now on goes to a new file, until the window of this id has ended.

    The file of a ring has what its windows need, and makes room for a recording that streams.
    """

def describe_ring(about: str, note: str) -> bool:
    """Another text about the ring that streams, in place of the last, and one more, unless empty.

    False if none streams, or its file has no room.
    """

def stream_state() -> tuple[str, bool, bool]:
    """Of what streams: its file, whether it is a ring, and whether something found no room in it.

    Without a file, nothing streams.
    """

def note_in_stream(text: str) -> None:
    """Add a text to the running stream; without one it is lost."""

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
    """What a recording left in its file."""

    @property
    def about(self) -> str: ...
    @property
    def notes(self) -> list[str]: ...
    def describe(self) -> StreamDescription: ...
    def decode(self, prefixes: Sequence[str]) -> DecodedWindow: ...
    def write_copy(self, file: int) -> int:
        """As the log of a dump, to a file that is open, without the GIL; 0, or an errno."""

def read_stream(path: str) -> StreamedLog: ...

class PieceDecoder:
    """Decodes the file of a recording piece by piece, while it goes on or afterwards."""

    def __init__(self, path: str, prefixes: Sequence[str]) -> None: ...
    def restore(self, state: bytes, name_offsets: Sequence[int], name_text: bytes) -> None: ...
    def state(self) -> bytes: ...
    def decode(self, records: int, margin_ns: int, is_last: bool) -> DecodedPiece | None:
        """The next piece, if there is as much; all that is left in pieces where ``is_last``."""

    def mark_spent(self) -> None:
        """What was decoded is elsewhere: the recording may use its place in the file again."""

    def close(self) -> None: ...

def allocation_ids(
    time_ns: NDArray[np.int64],
    impl: NDArray[np.uint64],
    storage: NDArray[np.uint64],
    device: NDArray[np.uint16],
    is_free: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], int]:
    """Of sightings of storages the allocation each is from; how many allocations have no free.

    Allocations and frees have impl 0.
    """

# native/columns/: whole columns.

def row_order(columns: list[NDArray[np.int64]]) -> NDArray[np.int64]: ...
def row_groups(
    columns: list[NDArray[np.int64]],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """A number for each row, the same for equal ones and in order of what they hold; then of each
    number the first row and how many there are."""

def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]: ...
def with_reused_memory(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """``function(*args, **kwargs)``, where NumPy takes the memory of arrays that were dropped."""

def reused_memory() -> tuple[int, int]:
    """Bytes of it in use by arrays, and free but kept for what :func:`with_reused_memory` runs."""

# native/nesting/: parents, and which span is innermost when.

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
    """The innermost earlier span of the same thread that contains each one, -1 for none; and the
    time that it shares with one that it began in and outlasts by more than ``rounding_ns``."""

def nest_on_lines(
    start_ns: NDArray[np.int64],
    duration_ns: NDArray[np.int64],
    parent: NDArray[np.int32],
    line: NDArray[np.int32],
    lines: int,
    by_start: NDArray[np.int64] | None,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """The span directly around each by time, -1 for none; its own time; rows of spans that do not
    nest, and until when these have time of their own (of a row twice, the last counts).
    Those on others than the first ``lines`` have -1 and 0. ``by_start`` are all rows in order of
    start, None where they stand so.
    """

# native/account/: which cause every instant has.

def causes_of_events(
    kind: NDArray[np.uint8],
    scope: NDArray[np.uint8],
    name: NDArray[np.int32],
    label: NDArray[np.int32],
    around: NDArray[np.int32],
    by_label: NDArray[np.int8],
    is_engine: NDArray[np.bool_],
) -> NDArray[np.int8]:
    """Of every event the cause of its own time, -1 for none of its own.

    ``by_label`` has what the text of every label says, -1 for nothing; ``is_engine`` which names
    are the autograd engine's own, and last, that none is not.
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
    """The time of threads between two moments, divided into causes."""

    def __init__(
        self,
        start_ns: NDArray[np.int64],
        took_ns: NDArray[np.int64],
        parent: NDArray[np.int32],
        causes: NDArray[np.int8],
        threads: Sequence[
            tuple[NDArray[np.int32], NDArray[np.int64], IntervalColumns | None, bool]
        ],
        steps: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
        transfers: NDArray[np.int64],
        passes: NDArray[np.int64],
        from_ns: int,
        to_ns: int,
        cost_ns: int,
    ) -> None:
        """``threads``: of each the rows of its spans in order of start, None for all; moments at
        which pieces of its time end, in order; what samples of it say; and whether it is asked for
        something all the time. ``steps``: when they begin, in order, when they end, and their rows.
        ``transfers``: when each began and ended. ``cost_ns``: of recording, wherever a span begins
        or ends."""

    def sums(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64], int]]:
        """Of each thread its nanoseconds by step and cause, outside of all steps first; how many of
        these may be of another cause; and in how many something was seen to run."""

    def sums_of_groups(
        self, thread: int, group: NDArray[np.int32], groups: int
    ) -> NDArray[np.int64]:
        """Nanoseconds of one thread in steps, by the group that the innermost span has, of no span
        last, and by cause."""

    def cut(self) -> list[tuple[NDArray[np.int64], ...]]:
        """Of every thread all pieces, before anything is known of the processor: start, length, the
        innermost span, -1 for none, cause, and whether it is a gap."""

    def pieces(self, thread: int, wanted: Sequence[int]) -> list[tuple[NDArray[np.int64], ...]]:
        """Columns of the pieces of one thread that went to causes that are wanted: step, event,
        cause, nanoseconds, start and end; one tuple for each way in which a piece is divided."""

# native/attribution/: which module, part of a step and line each event is of.

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
    """Which module call every event worked for, -1 for none; and of each call a place: those of one
    label within those of one place are one, which stand in the order of first calls.

    ``maker`` is the forward operator of spans of the backward pass, where arrows say so; ``store``
    the name of spans that store a gradient, -1 for none; ``is_engine`` which names are the engine's
    around a node, and last, that none is not.
    """

def phases(
    events: EventArrays,
    threads: int,
    start_ns: NDArray[np.int64],
    took_ns: NDArray[np.int64],
    by_name: NDArray[np.int8],
    by_start: NDArray[np.int64] | None,
    codes: tuple[int, int, int, int],
) -> tuple[NDArray[np.int8], NDArray[np.bool_], NDArray[np.int8]]:
    """The phase of every event, where one is entered, and that of what is around each.

    ``by_name`` is what names say of their events, -1 for nothing, and last what no name does;
    ``by_start`` the rows in order of start, None where they are in that order; ``codes`` are
    forward, backward, optimizer and collection.
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
    """Which events are listed, which of these are not asynchronous, and the closest of those around
    each. One whose label is of the group of its parent's, without another beside it, is folded into
    that; ``is_hidden`` says which labels are not listed."""

ListedArrays: TypeAlias = tuple[NDArray[np.bool_], NDArray[np.bool_]]
"""What ``listing`` says of every event: listed, and not asynchronous."""

def stack_sources(
    events: EventArrays,
    thread_number: NDArray[np.int64],
    listed: ListedArrays,
    makers: bool,
) -> NDArray[np.int32]:
    """Of each event itself, or the forward operator that it runs backwards; -1 for none.

    Of operators that share a sequence number that is the first; with ``makers`` the last, which
    made the node, or the outermost with that number that it runs in."""

CallArrays: TypeAlias = tuple[
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.bool_],
    NDArray[np.bool_],
]
"""Of every event: caller, line there, frame; whether the program called it, or defines it."""

def saying_where(
    events: EventArrays,
    thread_number: NDArray[np.int64],
    listed: ListedArrays,
    calls: CallArrays,
) -> NDArray[np.int32]:
    """The event that says where in the program each was asked for, -1 for none."""

def lines_of_events(
    events: EventArrays,
    thread_number: NDArray[np.int64],
    listed: ListedArrays,
    calls: CallArrays,
    first_line: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Frame and line of each event, by what ``saying_where`` says, -1 for none; ``first_line`` is
    of every frame."""

# native/graph/: what waited for what.

def earliest_ends(
    before: NDArray[np.int64],
    delay_ns: NDArray[np.int64],
    duration_ns: NDArray[np.int64],
    start_ns: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When nodes end that begin once all before them have ended, each with a delay after that; and
    the one before that each had to wait for, -1 for none. ``before`` has three columns, -1 for
    none, and names nodes that stand earlier."""

def latest_ends(
    before: NDArray[np.int64],
    delay_ns: NDArray[np.int64],
    duration_ns: NDArray[np.int64],
    end_ns: int,
) -> NDArray[np.int64]:
    """Latest end of each node without an end after ``end_ns``."""

# native/memory/: whose memory it was.

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
        gpu_numbers: list[str],
        header: bytes,
        base_ns: int,
        first_sequence: int,
    ) -> None: ...
    @property
    def rows_written(self) -> int: ...
    def next_block(self, size: int) -> NDArray[np.uint8] | None: ...

class ExecutionTraceWriter:
    """The nodes of an execution trace, from one trace of a process after another."""

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
    """One value of a :class:`PlainPickle`, wherever it is in there."""

class PlainPickle:
    """Plain data of a pickle: nothing is imported, made or called; reads without the GIL.

    ``data`` is not to change while this is there.

    Raises:
        ValueError: it is damaged, holds more than plain data, or far more containers than data.
    """

    def __init__(self, data: NDArray[np.uint8]) -> None: ...
    @property
    def root(self) -> PickledValue: ...
    def get(self, dictionary: PickledValue, key: str) -> PickledValue:
        """Of a key; None where it is not there, or this is no dictionary."""

    def items(self, list: PickledValue) -> list[PickledValue]:
        """Of a list or tuple; empty for anything else."""

    def value(self, value: PickledValue) -> bool | int | float | str | None:
        """As Python has it; None for a container."""

    def text(self, row: int) -> str: ...
    def list(self, row: int) -> PickledValue: ...
    def column(
        self, list: PickledValue, key: str, kind: str = "integer", otherwise: int = -1
    ) -> NDArray[np.int64]:
        """Of a list of dictionaries one key: an integer, or the row of a ``text`` or ``list``."""

class JsonProblem(TypedDict):
    """Why a text is no JSON and where; ``is_at_end``: it was cut."""

    what: str
    line: int
    column: int
    is_at_end: bool

class ChromeReader:
    """Events of a Chrome JSON, as columns; reads without the GIL.

    ``meaning_of`` is called once for each category (``storage/chrome/vocabulary.py``); with
    ``mends`` bare quotes in names are mended. Of a text that was cut, what is whole is read.
    """

    def __init__(
        self, vocabulary: Mapping[str, Any], meaning_of: Callable[[str], object], mends: bool
    ) -> None: ...
    def add(self, piece: bytes) -> bool:
        """The next bytes, valid UTF-8; False: there is a problem."""

    def finish(self) -> bool: ...
    def take(self) -> dict[str, Any]:
        """What was read, once."""

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
        """JSON of the keys beside the events; empty for a file that is no object."""
