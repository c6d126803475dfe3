"""Splits time by owner: torch, own Python, other libraries. Finds time that no finding explains."""

from __future__ import annotations

from enum import Enum

import numpy as np

from opscope.base.cached_property import cached_property
from opscope.columns.row_groups import group_rows
from opscope.columns.schema import EventKind
from opscope.findings.finding import Finding, Unexplained
from opscope.findings.pattern import has_calls_of_libraries
from opscope.findings.subject import Flags, Subject, Values
from opscope.timeline.listing import launched_work
from opscope.timeline.period import wall_bounds
from opscope.timeline.tree.frame_text import python_events
from opscope.timeline.tree.line_nesting import own_times
from opscope.timeline.waits import is_idle, waits_for_device

_OF_A_CALL_NS = 500
"""Interpreter time around one call of torch, which is not the program's own code."""

_OF_AN_OPERATOR_NS = 5_000  # time of a C function of torch around each operator that it calls
_PYTHON_PER_OPERATOR = 3
"""torch's Python code is named if it takes this many times the time of its operators."""

_MACHINERY = ("torch/optim/", "torch/_compile.py", "torch/_dynamo/", "torch/_inductor/")
"""torch's Python code that has findings of its own."""

LOADED_BY_WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter"
"""Span around each batch of a DataLoader with workers."""

_WRITERS, _TENSOR = ("torch/_tensor_str.py", "torch/serialization.py"), "torch/_tensor.py"
_MOST_PLACES, _SAYS_ENOUGH = 3, 0.02
"""Findings that save a smaller share do not count as an explanation."""


class Spent(Enum):
    """Owner of an event's self time, in words."""

    TORCH = "torch's operators"  # autograd too, and C functions that call operators
    TORCH_PYTHON = "torch's Python"
    OWN = "the program's Python"
    OUTSIDE = "other libraries"  # and C functions that call no operator
    PAUSE = "garbage collections"
    UNKNOWN = "unrecorded calls"
    IMPORT = "imports"  # with all calls during an import
    WAITING = "idle"  # event loops without work
    DEVICE = "waiting for a device"


_NUMBER = {spent: number for number, spent in enumerate(Spent)}
_WORDS = [spent.value for spent in Spent]


class TimeSplit:
    """Owner of each event's self time. Arrays have shape (events,).

    Attributes:
        self_ns: self time of each event.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.self_ns: Values = own_times(subject.trace)
        self._is_call: Flags = python_events(subject.trace)
        self._is_c_call = np.asarray(subject.events["kind"] == EventKind.C_CALL)
        self._called_by = subject.inside(self._is_call)
        self._operators = self._count(self._called_by[subject.is_outermost])
        self.number = self._classify()

    def is_spent(self, *whose: Spent) -> Flags:
        """Whether the self time of each event belongs to one of ``whose``."""
        return np.isin(self.number, [_NUMBER[one] for one in whose])

    def _classify(self) -> Values:
        """Owner of each event's self time, as a number."""
        subject, kind = self._subject, self._subject.events["kind"]
        whose = np.full(len(kind), _NUMBER[Spent.UNKNOWN], dtype=np.int64)
        functions = self._is_call & ~self._is_c_call
        whose[functions] = self._of_frames[subject.sites.frame[functions]]
        if not self._is_c_call.any():  # without C calls, torch's C code is in the caller
            calling = functions & (whose == _NUMBER[Spent.TORCH_PYTHON]) & (self._operators > 0)
            whose[calling] = _NUMBER[Spent.TORCH]
        by = self._of_frames[subject.sites.caller]
        by = np.where(by == _NUMBER[Spent.OWN], _NUMBER[Spent.OUTSIDE], by)
        whose[self._is_c_call] = by[self._is_c_call]
        whose[self._is_c_call & (self._operators > 0)] = _NUMBER[Spent.TORCH]
        # An annotation's self time belongs to the function around it.
        others = ~self._is_call
        around = np.where(self._called_by >= 0, whose[self._called_by], _NUMBER[Spent.UNKNOWN])
        whose[others] = around[others]
        # Library functions that launch device work count as torch.
        launch = subject.trace.table("gpu")["launch"][launched_work(subject.trace)]
        launching = subject.flags(subject.parent[launch])[:-1]
        libraries = [_NUMBER[Spent.TORCH_PYTHON], _NUMBER[Spent.OUTSIDE]]
        launching &= np.isin(whose, libraries)
        in_torch = subject.is_operator | (subject.operator_parent >= 0)
        in_torch |= launching | (kind == EventKind.RUNTIME_CALL)
        importing = subject.calls_of("importlib._bootstrap>")
        for spent, events in (
            (Spent.TORCH, in_torch),
            (Spent.IMPORT, importing | subject.within(importing)),
            (Spent.PAUSE, kind == EventKind.GC_PAUSE),
            (Spent.WAITING, subject.labelled(is_idle)),
            (Spent.DEVICE, subject.labelled(waits_for_device)),
        ):
            whose[events] = _NUMBER[spent]
        return whose

    @cached_property
    def _of_frames(self) -> Values:
        """Owner of each row of ``frames``; the last is for "no frame"."""
        trace, own = self._subject.trace, self._subject.sites.own_frame
        files = [trace.names[file] for file in trace.table("frames")["file"]]
        is_torch = [file.startswith("torch/") or "/torch/" in file for file in files]
        library = np.where([*is_torch, False], _NUMBER[Spent.TORCH_PYTHON], _NUMBER[Spent.OUTSIDE])
        return np.where(own, _NUMBER[Spent.OWN], library).astype(np.int64)

    def _count(self, rows: Values) -> Values:
        return np.bincount(rows[rows >= 0], minlength=len(self.self_ns)).astype(np.int64)

    @cached_property
    def own_ns(self) -> Values:
        """Self time of the program's Python code, without the overhead of its calls."""
        counted = self.is_spent(Spent.TORCH, Spent.TORCH_PYTHON)
        allowed = _OF_A_CALL_NS * self._count(self._subject.parent[counted]) + self._unseen_ns
        is_own = self.is_spent(Spent.OWN) & self._is_call & self._subject.is_main
        return np.where(is_own, np.maximum(self.self_ns - allowed, 0), 0)

    @cached_property
    def _unseen_ns(self) -> Values:
        """Time of unrecorded library code around operators, by a fixed time per operator."""
        known = has_calls_of_libraries(self._subject)
        return np.asarray((0 if known else _OF_AN_OPERATOR_NS) * self._operators)

    @cached_property
    def outside_ns(self) -> Values:
        """Main thread's time in other libraries, and in torch's calls that hardly compute."""
        subject = self._subject
        runs_network = subject.sums(subject.is_training | subject.is_module_call) > 0
        outside = self.self_ns - np.where(runs_network, self._unseen_ns, 0)
        outside = np.where(self.is_spent(Spent.OUTSIDE), outside, 0)
        by_own = self._of_frames[subject.sites.caller] == _NUMBER[Spent.OWN]
        converting = self._is_c_call & by_own & self.is_spent(Spent.TORCH) & ~self._binds()
        converted = self.self_ns - _OF_AN_OPERATOR_NS * (self._operators + 1)
        outside = np.where(converting, converted, outside)
        outside = np.maximum(outside, 0) + self._idle_torch_python()
        writing = subject.calls_of(*_WRITERS)
        for name in ("__repr__", "__format__"):
            writing |= subject.calls_of(_TENSOR, name=name)
        writing = (writing | subject.within(writing)) & ~self.is_spent(Spent.IMPORT)
        outside = np.where(writing, self.self_ns, outside)
        waiting = subject.name_contains(LOADED_BY_WORKERS)
        waiting |= subject.within(waiting)
        return np.where(subject.is_main & ~waiting, outside, 0)

    def _binds(self) -> Flags:
        """C functions that call the operator of the same name: torch's Python bindings.

        Other C functions of torch spend their time on conversions, such as torch.tensor of a list.
        """
        subject, numbers = self._subject, dict[str, int]()
        texts, label = subject.listing.texts, subject.listing.label
        of_label = [numbers.setdefault(_function_of(text), len(numbers)) for text in texts]
        number = np.array([*of_label, -1], dtype=np.int64)[label]
        inner = subject.outermost[self._called_by[subject.outermost] >= 0]
        by = self._called_by[inner]
        called = subject.flags(by[number[by] == number[inner]])[:-1]
        return np.asarray(called & self._is_c_call)

    def _idle_torch_python(self) -> Values:
        """Time of torch's Python in calls where operators take a small part."""
        subject = self._subject
        python = np.where(self.is_spent(Spent.TORCH_PYTHON), self.self_ns, 0)
        torch = np.where(self.is_spent(Spent.TORCH), self.self_ns, 0)
        site, group = subject.sites.around, group_rows(*subject.sites.at).group
        idle = np.bincount(group, python) > _PYTHON_PER_OPERATOR * np.bincount(group, torch)
        counted = idle[group] & (site >= 0) & ~subject.calls_of(*_MACHINERY)[site]
        return np.where(counted, python, 0)


def _function_of(text: str) -> str:
    """``<built-in method stack of type object at 0x...>`` and ``aten::stack`` as stack."""
    if text.startswith("<built-in "):
        return text.removeprefix("<built-in ").partition(" ")[2].partition(" ")[0].rstrip(">")
    return text.rpartition("::")[2]


def unexplained(subject: Subject, found: list[Finding]) -> Unexplained:
    """Time of the main thread outside all findings: how much, whose, and at which lines."""
    if not len(subject.events):
        return Unexplained(0, 0.0, (), ())
    split = subject.once(TimeSplit)
    spent = np.where(subject.is_main, _left_ns(subject, split, found), 0)
    counted = int(split.self_ns[subject.is_main].sum())
    by_kind = np.bincount(split.number, weights=spent, minlength=len(Spent)).astype(np.int64)
    first, last = wall_bounds(subject.trace)
    by_kind[_NUMBER[Spent.UNKNOWN]] += max(last - first - counted, 0)
    # The largest saving counts as explained, even if the finding's events take less.
    most = subject.wall_ns - max((finding.saved_ns or 0 for finding in found), default=0)
    if by_kind.sum() > most:
        by_kind = (by_kind * (most / by_kind.sum())).astype(np.int64)
    order = [kind for kind in np.argsort(-by_kind).tolist() if by_kind[kind] > 0]
    rows = np.flatnonzero(spent > 0)
    places = subject.sites.places(rows, spent[rows], with_modules=False)
    return Unexplained(
        time_ns=int(by_kind.sum()),
        share=min(int(by_kind.sum()) / subject.wall_ns, 1.0),
        parts=tuple((_WORDS[kind], int(by_kind[kind])) for kind in order),
        places=tuple(place for place in places if place.file)[:_MOST_PLACES],
    )


def _left_ns(subject: Subject, split: TimeSplit, found: list[Finding]) -> Values:
    """Self time of each event that no finding explains.

    Occurrences of a finding and their calls are explained in full. Functions of the program are
    explained only by their self time, up to the saving.
    """
    functions = subject.sites.defined_here
    chosen, left = np.zeros(len(functions), dtype=np.bool_), np.ones(len(functions))
    for finding in found:
        if finding.weight >= _SAYS_ENOUGH:
            chosen[finding.events] = True
            running = finding.events[functions[finding.events]]
            saved = (finding.saved_ns or 0) / max(int(split.self_ns[running].sum()), 1)
            left[running] = np.minimum(left[running], max(1 - saved, 0.0))
    inner = chosen & ~functions
    explained = inner | subject.within(inner)
    return np.where(explained, 0, np.rint(split.self_ns * left)).astype(np.int64)
