"""Data sources: one row of ``SOURCES`` for each, with its options.

Generic code reads these rows: native flags, set-up, ledger rows, parameters of ``opscope.profile``,
kinds of an activity filter and options of ``opscope run``.
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
    ThreadNames,
)


@dataclass(frozen=True, kw_only=True)
class RecordingOptions:
    """Data to record; ``docs/measurements.md`` has the cost of each option per span."""

    operators: bool = True  # torch operators, autograd nodes, TorchScript calls
    inner_operators: bool = True  # also operators inside operators
    annotations: bool = True  # spans named with record_function
    shapes: bool = False  # arguments of operators: shapes, strides, dtypes, scalars
    outputs: bool = False  # results, in the same form (needed by execution traces)
    memory: bool = False  # allocations and frees
    stack: bool = False  # Python and C calls
    functions: bool = False  # Python calls without C calls, at a fraction of the cost
    own_functions: bool = False  # only the program's own functions, no libraries
    modules: bool = False  # nn.Module and optimizer calls only
    overloads: bool = False  # operator overload names
    asyncio: bool = False  # runs of asyncio's tasks, as spans
    gc_pauses: bool = True  # garbage collections, as spans
    compiled: bool = True  # runs of torch.compile's graphs, their kernels and source lines
    all_threads: bool = True  # every thread of the process; else only the one that starts it
    new_threads: bool = True  # also Python calls of threads that begin during the recording
    process_ids: bool = False  # a span has the same id in all running recordings
    gpu: bool = False  # CUDA device activity and runtime calls
    gpu_sync: bool = False  # also which call recorded the CUDA event of each wait
    source_lines: bool = True  # keep the text of the program's own lines at recorded calls
    thread_samples: bool = True  # kernel counters of threads, about 100 times a second

    def union(self, other: RecordingOptions) -> RecordingOptions:
        """Options that are on in either one."""
        return RecordingOptions(
            **{f.name: getattr(self, f.name) or getattr(other, f.name) for f in fields(self)}
        )

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> RecordingOptions:
        """Options in ``given`` that this version has; a newer one may have written others."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: bool(is_on) for name, is_on in given.items() if name in known})


NOTHING = Want(0)


@dataclass(frozen=True, kw_only=True)
class Switch:
    """One option of a source."""

    option: str  # the field of RecordingOptions
    want: Want = NOTHING  # the flag for the native recorder; 0: none
    parameter: str = ""  # bool parameter of ``opscope.profile``; empty without one
    flag: str = ""  # help text of the option of ``opscope run``; empty without one
    command: str = ""  # its name in ``opscope run``, if not ``option``
    filter_kind: str = ""  # its kind in a CPU activity filter; empty without one

    @property
    def flag_name(self) -> str:
        """The option of ``opscope run``, such as ``--shapes``."""
        return f"--{self.command or self.option}"


@dataclass(frozen=True, kw_only=True)
class Source:
    """One kind of thing that can be recorded."""

    name: str  # its name in the documentation
    records: str  # the recorded data, in a few words
    wanted_with: tuple[str, ...] = ()  # options that enable it; empty: always enabled
    switches: tuple[Switch, ...] = ()  # its options
    kinds: tuple[EventKind, ...] = ()  # kinds of its spans in ``events``
    tables: tuple[str, ...] = ()  # tables it fills, besides ``events``, ``threads`` and ``names``
    prepare: Callable[[], object] | None = None  # slow, idempotent work before a window opens
    listener: Callable[[RecordingOptions], Listener] | None = None  # for one window
    ledger: Callable[[ledger.Recorded], Iterable[ledger.Row]] | None = None  # its rows

    def is_enabled_by(self, options: RecordingOptions) -> bool:
        """Whether a recording with these options records the source."""
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
        records="calls of nn.Module instances and steps of optimizers; their parameters",
        # Recording all Python functions includes these.
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
        records="names of Python threads",
        listener=lambda _: ThreadNames(),
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
"""Set up around a window in this order, and taken down in reverse."""


def prepare_sources() -> None:
    """Do the slow part that every recording needs: load the bridge, and compile it if necessary."""
    for source in SOURCES:
        if source.prepare is not None:
            source.prepare()


def listeners_of(options: RecordingOptions) -> list[Listener]:
    """Listeners for one window, in order of set-up."""
    return [
        source.listener(options)
        for source in SOURCES
        if source.listener is not None and source.is_enabled_by(options)
    ]


def switches() -> Iterator[Switch]:
    """Switches of all sources, in order; one for each option."""
    for source in SOURCES:
        yield from source.switches


DETAIL = frozenset({"shapes", "memory", "modules", "own_functions", "asyncio"})
"""Options that findings with source lines need."""


def native_wants(options: RecordingOptions) -> int:
    """``options`` as the native recorder's bit mask."""
    wanted = (switch.want for switch in switches() if getattr(options, switch.option))
    return int(functools.reduce(operator.or_, wanted, NOTHING))
