"""Data sources: one row of ``SOURCES`` for each, with its options.

Code that deals with all sources reads these rows and names none: the bits that the native recorder
is asked with, what is set up before a window and around it, the rows of the ledger, the options of
``opscope.profile``, the kinds of an activity filter and the switches of ``opscope run``.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from opscope.columns.codes import EventKind, Want
from opscope.recording import ledger
from opscope.recording.bridge import bridge
from opscope.recording.compiled.listener import GeneratedCode
from opscope.recording.detail import DetailStretches
from opscope.recording.facts.coexistence import set_up_coexistence
from opscope.recording.facts.module_paths import ModulePaths
from opscope.recording.facts.process_groups import ProcessGroups
from opscope.recording.facts.python_source import set_up_python_source
from opscope.recording.facts.thread_samples import ThreadSamples
from opscope.recording.ledger import gpu_ledger
from opscope.recording.listeners import (
    DeviceActivity,
    Listener,
    MemoryReports,
    OtherTools,
    ProcessorTime,
    ThreadNames,
)


@dataclass(frozen=True, kw_only=True)
class RecordingOptions:
    """What to collect; ``docs/measurements.md`` has what each costs per span."""

    operators: bool = True  # torch operators, autograd nodes, TorchScript calls
    # with them, those that other operators run, and not outermost ones alone
    inner_operators: bool = True
    annotations: bool = True  # spans named with record_function
    shapes: bool = False  # arguments of operators: shapes, strides, dtypes, scalars
    outputs: bool = False  # the same of results (needed by execution traces)
    memory: bool = False  # allocations and frees
    stack: bool = False  # Python and C calls
    functions: bool = False  # Python calls without C calls, which costs a fraction of that
    own_functions: bool = False  # of these the program's own, not those of installed libraries
    modules: bool = False  # nn.Module and optimizer calls only
    overloads: bool = False  # operator overload names
    asyncio: bool = False  # runs of asyncio's tasks, as spans
    gc_pauses: bool = True  # garbage collections, as spans
    # runs of code from torch.compile, its kernels and their source lines
    compiled: bool = True
    all_threads: bool = True  # every thread of the process; otherwise only the one that starts
    new_threads: bool = True  # Python calls also of threads that begin during the recording
    # give spans the ids that they have in every other recording that is under way
    process_ids: bool = False
    gpu: bool = False  # what CUDA devices do, and the calls of their runtime
    gpu_sync: bool = False  # with it, which call recorded the CUDA event that a wait is for
    source_lines: bool = True  # keep the text of the program's own lines at recorded calls
    thread_samples: bool = True  # what the kernel counts of threads, about a hundred times a second

    def union(self, other: RecordingOptions) -> RecordingOptions:
        """What either asks for."""
        return RecordingOptions(
            **{f.name: getattr(self, f.name) or getattr(other, f.name) for f in fields(self)}
        )

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> RecordingOptions:
        """Those of ``given`` that this version has: a newer one may have written more."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: bool(is_on) for name, is_on in given.items() if name in known})


NOTHING = Want(0)


@dataclass(frozen=True, kw_only=True)
class Switch:
    """One thing that a recording may ask of a source."""

    option: str  # the field of RecordingOptions
    want: Want = NOTHING  # the flag for the native recorder; 0: none
    parameter: str = ""  # of ``opscope.profile``, where that says it with a bool; else empty
    flag: str = ""  # what the help of ``opscope run`` says of its option; empty: it has none
    command: str = ""  # what ``opscope run`` calls it, where that is not ``option``
    filter_kind: str = ""  # what an activity filter for the CPU calls it; empty: it cannot be named

    @property
    def flag_name(self) -> str:
        """The option of ``opscope run``: ``--shapes``."""
        return f"--{self.command or self.option}"


@dataclass(frozen=True, kw_only=True)
class Source:
    """One thing that can be recorded."""

    name: str  # what the documentation calls it
    records: str  # in a few words, what a trace has of it
    # options any of which records it; empty: every recording does
    wanted_with: tuple[str, ...] = ()
    switches: tuple[Switch, ...] = ()  # what may be asked of it
    kinds: tuple[EventKind, ...] = ()  # of spans in ``events``
    tables: tuple[str, ...] = ()  # that it fills, but for ``events``, ``threads`` and ``names``
    # does what is slow, before a window is opened; may be called again at any time
    prepare: Callable[[], object] | None = None
    # what is set up around each window that wants the source
    listener: Callable[[RecordingOptions], Listener] | None = None
    # rows about it, of a trace whose recording wanted it
    ledger: Callable[[ledger.Recorded], Iterable[ledger.Row]] | None = None

    def is_enabled_by(self, options: RecordingOptions) -> bool:
        """Whether a recording with these options has it."""
        wanted = (getattr(options, option) for option in self.wanted_with)
        return not self.wanted_with or any(wanted)


SOURCES = (
    Source(
        name="events",
        records="every span, with its thread, its parent and its times",
        switches=(Switch(option="process_ids", want=Want.PROCESS_IDS),),
        ledger=ledger.events,
    ),
    Source(
        name="operators",
        records="torch operators, autograd nodes, TorchScript calls",
        wanted_with=("operators",),
        switches=(
            Switch(option="operators", want=Want.OPERATORS, filter_kind="CPU_OP"),
            Switch(option="inner_operators", want=Want.INNER_OPERATORS),
            Switch(option="overloads", want=Want.OVERLOADS),
        ),
        kinds=(EventKind.OPERATOR,),
        prepare=bridge.load,
        listener=lambda _: ProcessGroups(),
    ),
    Source(
        name="annotations",
        records="spans named with record_function, by the program or a library",
        wanted_with=("annotations",),
        switches=(
            Switch(option="annotations", want=Want.ANNOTATIONS, filter_kind="USER_ANNOTATION"),
        ),
        kinds=(EventKind.ANNOTATION,),
    ),
    Source(
        name="arguments",
        records="arguments and results of operators: shapes, strides, dtypes, scalars",
        wanted_with=("shapes", "outputs"),
        switches=(
            Switch(
                option="shapes",
                want=Want.INPUTS,
                parameter="record_shapes",
                flag="Arguments of operators.",
            ),
            Switch(option="outputs", want=Want.OUTPUTS, parameter="record_outputs"),
        ),
        tables=("tensors", "scalars"),
        ledger=ledger.arguments,
    ),
    Source(
        name="allocations",
        records="allocations and frees of memory, on the CPU and on devices",
        wanted_with=("memory",),
        switches=(
            Switch(
                option="memory",
                want=Want.MEMORY,
                parameter="profile_memory",
                flag="Memory allocations and frees.",
                filter_kind="CPU_INSTANT_EVENT",
            ),
        ),
        tables=("allocations",),
        listener=lambda _: MemoryReports(),
        ledger=ledger.allocations,
    ),
    Source(
        name="Python calls",
        records="Python functions",
        wanted_with=("stack", "functions", "own_functions"),
        switches=(
            Switch(
                option="stack",
                want=Want.PYTHON,
                parameter="with_stack",
                command="c-calls",
                flag="Calls of Python and C functions; several times the overhead of --stack.",
                filter_kind="PYTHON_FUNCTION",
            ),
            Switch(
                option="functions",
                want=Want.FUNCTIONS,
                parameter="with_functions",
                command="stack",
                flag="Calls of Python functions; --c-calls adds C functions.",
            ),
            Switch(
                option="own_functions",
                want=Want.OWN_FUNCTIONS,
                parameter="with_own_functions",
                command="own-stack",
                flag="Calls of the program's own Python functions, with the lowest overhead.",
            ),
            Switch(option="new_threads", want=Want.NEW_THREADS),
            Switch(option="source_lines"),
        ),
        kinds=(EventKind.PYTHON_CALL,),
        tables=("python_calls", "operator_calls", "frames", "source_lines"),
        prepare=set_up_python_source,
        listener=lambda _: OtherTools(),
    ),
    Source(
        name="C calls",
        records="C functions called from Python",
        wanted_with=("stack",),
        kinds=(EventKind.C_CALL,),
    ),
    Source(
        name="modules and optimizers",
        records="calls of nn.Module instances and steps of optimizers; what they hold",
        # Among all Python functions there are these too.
        wanted_with=("modules", "stack", "functions", "own_functions"),
        switches=(
            Switch(
                option="modules",
                want=Want.MODULES,
                parameter="with_modules",
                flag="nn.Module calls.",
            ),
        ),
        kinds=(EventKind.MODULE_CALL, EventKind.OPTIMIZER_CALL),
        tables=("modules", "optimizers", "parameters"),
        prepare=set_up_python_source,
        listener=lambda _: ModulePaths(),
    ),
    Source(
        name="TorchScript calls",
        records="where in TorchScript an operator was called",
        wanted_with=("modules", "stack", "functions", "own_functions"),
        tables=("script_calls",),
    ),
    Source(
        name="garbage collections",
        records="pauses of Python's collector",
        wanted_with=("gc_pauses",),
        switches=(Switch(option="gc_pauses", want=Want.GC),),
        kinds=(EventKind.GC_PAUSE,),
    ),
    Source(
        name="compiled code",
        records="runs of code from torch.compile, its kernels and their source lines",
        wanted_with=("compiled",),
        switches=(Switch(option="compiled", want=Want.COMPILED),),
        kinds=(EventKind.COMPILED_GRAPH,),
        tables=("compiled_sites", "compiled_origins", "compilations"),
        listener=lambda _: GeneratedCode(),
    ),
    Source(
        name="asyncio tasks",
        records="runs of asyncio tasks between two awaits, and their waits",
        wanted_with=("asyncio",),
        switches=(
            Switch(
                option="asyncio",
                want=Want.ASYNCIO,
                parameter="with_asyncio",
                flag="Runs of asyncio tasks.",
            ),
        ),
        kinds=(EventKind.TASK_RUN,),
        tables=("task_runs", "tasks"),
        ledger=ledger.counted("asyncio tasks", runs="task_runs", tasks="tasks"),
    ),
    Source(
        name="threads",
        records="threads, and which of them were recorded incompletely",
        switches=(Switch(option="all_threads"),),
        prepare=set_up_coexistence,
        ledger=ledger.threads,
    ),
    Source(
        name="GPU activity",
        records="kernels, copies, memory sets and waits of CUDA devices; calls of their runtime",
        wanted_with=("gpu",),
        switches=(
            Switch(option="gpu", want=Want.GPU),
            Switch(option="gpu_sync", want=Want.GPU_SYNC),
        ),
        kinds=(EventKind.RUNTIME_CALL,),
        tables=("gpu", "runtime_calls", "gpu_graph_nodes", "gpu_memory", "gpu_overheads"),
        listener=lambda options: DeviceActivity(native_wants(options)),
        ledger=gpu_ledger,
    ),
    Source(
        name="thread names",
        records="what Python calls threads",
        listener=lambda _: ThreadNames(),
    ),
    Source(
        name="processor",
        records="CPU time of the thread that opened the window, and its waits for a CPU",
        listener=lambda _: ProcessorTime(),
        ledger=ledger.processor,
    ),
    Source(
        name="thread samples",
        records="kernel counters of each thread: CPU time, waits, page faults",
        wanted_with=("thread_samples",),
        switches=(Switch(option="thread_samples"),),
        tables=("thread_samples",),
        listener=lambda _: ThreadSamples(),
    ),
    Source(
        name="detail",
        records="which stretches were recorded in more detail than the rest",
        listener=lambda _: DetailStretches(),
    ),
    Source(
        name="clock",
        records="clock errors",
        ledger=ledger.clocks,
    ),
)
"""In the order in which they are set up around a window, and taken down the other way round."""


def prepare_sources() -> None:
    """Do the slow part that every recording needs: load the bridge, and compile it if necessary."""
    for source in SOURCES:
        if source.prepare is not None:
            source.prepare()


def listeners_of(options: RecordingOptions) -> list[Listener]:
    """For one window, in the order in which they are set up."""
    return [
        source.listener(options)
        for source in SOURCES
        if source.listener is not None and source.is_enabled_by(options)
    ]


def switches() -> Iterator[Switch]:
    """Of all sources, in their order: one for each option."""
    for source in SOURCES:
        yield from source.switches


def native_wants(options: RecordingOptions) -> int:
    """``options`` as the native recorder's bit mask."""
    wanted = (switch.want for switch in switches() if getattr(options, switch.option))
    return int(functools.reduce(operator.or_, wanted, NOTHING))
