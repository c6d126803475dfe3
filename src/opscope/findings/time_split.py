"""Whose time passes: torch's, that of the program's own Python, or that of other libraries."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from opscope.base.cached_property import cached_property
from opscope.columns.row_groups import group_rows
from opscope.columns.schema import EventKind
from opscope.findings.pattern import has_calls_of_libraries
from opscope.findings.subject import Flags, Subject, Values
from opscope.timeline.listing import launched_work
from opscope.timeline.tree.event_tree import nearest_ancestor, subtree_sums
from opscope.timeline.tree.frame_text import python_events
from opscope.timeline.tree.line_nesting import own_times
from opscope.timeline.waits import is_idle, waits_for_device

_OF_A_CALL_NS = 500
"""What the interpreter needs around one call of torch's: that is not the program's own code."""

_OF_AN_OPERATOR_NS = 5_000
"""What a C function of torch's needs around each operator it calls."""

_PYTHON_PER_OPERATOR = 3
"""torch's own Python may take so many times what its operators take before it is named."""

_MACHINERY = ("torch/optim/", "torch/_compile.py", "torch/_dynamo/", "torch/_inductor/")
"""torch's Python that findings of their own are about."""

LOADED_BY_WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter"
"""Around each batch of a DataLoader that has workers."""

_WRITERS = ("torch/_tensor_str.py", "torch/serialization.py")
_TEXT_OF_TENSOR = ("__repr__", "__format__")


class Spent(IntEnum):
    """Whose time it is while an event runs and nothing that it called does."""

    TORCH = 0  # operators, autograd, and C functions that call them
    TORCH_PYTHON = 1  # torch's Python code
    OWN = 2  # functions of the program
    OUTSIDE = 3  # other libraries, and C functions that call no operator
    PAUSE = 4  # collections
    UNKNOWN = 5  # in no call
    IMPORT = 6  # modules that are imported, with all they call
    WAITING = 7  # of loops of events, for whatever comes next
    DEVICE = 8  # the host waits for it


_OF_TORCH = (Spent.TORCH, Spent.TORCH_PYTHON)
_LIBRARIES = (Spent.TORCH_PYTHON, Spent.OUTSIDE)


class TimeSplit:
    """Arrays have shape (events,).

    Attributes:
        self_ns: time of each event in which nothing that it called ran.
        whose: ``Spent`` of that.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.self_ns: Values = own_times(subject.trace)
        self._is_call: Flags = python_events(subject.trace)
        self._called_by = nearest_ancestor(subject.parent, self._is_call).astype(np.int64)
        inner = subject.is_operator & (subject.operator_parent < 0)
        self._operators = _count(self._called_by[inner], len(self.self_ns))
        self.whose = self._classify()

    def _classify(self) -> Values:
        subject, kind = self._subject, self._subject.events["kind"]
        of_frame = self._of_frames()
        whose = np.full(len(kind), Spent.UNKNOWN, dtype=np.int64)
        functions = self._is_call & (kind != EventKind.C_CALL)
        whose[functions] = of_frame[subject.sites.frame[functions]]
        c_calls = kind == EventKind.C_CALL
        if not c_calls.any():  # what torch runs in C around operators is time of who called it
            calling = functions & (whose == Spent.TORCH_PYTHON) & (self._operators > 0)
            whose[calling] = Spent.TORCH
        by = of_frame[subject.sites.caller]
        whose[c_calls] = np.where(by == Spent.OWN, Spent.OUTSIDE, by)[c_calls]
        whose[c_calls & (self._operators > 0)] = Spent.TORCH
        # An annotation's own time is that of the function it is in.
        others = ~self._is_call
        whose[others] = np.where(self._called_by >= 0, whose[self._called_by], Spent.UNKNOWN)[
            others
        ]
        # Where each piece of work takes its time when it is launched, that is time of who did it.
        by = subject.parent[subject.trace.table("gpu")["launch"][launched_work(subject.trace)]]
        by = by[by >= 0]
        whose[by[np.isin(whose[by], _LIBRARIES)]] = Spent.TORCH
        whose[kind == EventKind.RUNTIME_CALL] = Spent.TORCH
        in_torch = subject.is_operator | (subject.operator_parent >= 0)
        whose[in_torch] = Spent.TORCH
        importing = self._defined_in("importlib._bootstrap>")
        whose[importing | (nearest_ancestor(subject.parent, importing) >= 0)] = Spent.IMPORT
        whose[kind == EventKind.GC_PAUSE] = Spent.PAUSE
        listing = subject.listing
        idle = np.array([is_idle(text) for text in listing.texts], dtype=np.bool_)
        whose[idle[listing.label]] = Spent.WAITING
        waits = np.array([waits_for_device(text) for text in listing.texts], dtype=np.bool_)
        whose[waits[listing.label]] = Spent.DEVICE
        return whose

    def _of_frames(self) -> Values:
        """Whose each row of ``frames`` is; the last is for "no frame"."""
        trace, own = self._subject.trace, self._subject.sites.own_frame
        files = [trace.names[file] for file in trace.table("frames")["file"]]
        torch = np.array([_is_torch(file) for file in files] + [False], dtype=np.bool_)
        kinds = np.where(own, Spent.OWN, np.where(torch, Spent.TORCH_PYTHON, Spent.OUTSIDE))
        kinds[-1] = Spent.OUTSIDE
        return kinds.astype(np.int64)

    @cached_property
    def own_ns(self) -> Values:
        """Python code of the program itself, without what calling anything from it takes."""
        counted = np.isin(self.whose, _OF_TORCH)
        children = _count(self._subject.parent[counted], len(self.self_ns))
        allowed = _OF_A_CALL_NS * children
        allowed += self._unseen_ns
        own = np.where(self.whose == Spent.OWN, self.self_ns - allowed, 0)
        own[~self._is_call | ~self._subject.is_main] = 0
        return np.maximum(own, 0)

    @cached_property
    def _unseen_ns(self) -> Values:
        """What libraries do around operators that they call, where it is in no call of theirs."""
        if has_calls_of_libraries(self._subject):
            return np.zeros(len(self.self_ns), dtype=np.int64)
        return np.asarray(_OF_AN_OPERATOR_NS * self._operators)

    @cached_property
    def outside_ns(self) -> Values:
        """Time in other libraries, and in calls of torch's that compute hardly anything.

        Of the main thread: what others do, or wait for, goes on beside it.
        """
        runs = self._subject.is_training | (self._subject.events["kind"] == EventKind.MODULE_CALL)
        runs_network = subtree_sums(self._subject.parent, runs.astype(np.int64)) > 0
        unseen = np.where(runs_network, self._unseen_ns, 0)
        outside = np.where(self.whose == Spent.OUTSIDE, self.self_ns - unseen, 0)
        outside = np.maximum(outside, 0)
        sites = self._subject.sites
        converting = (self._subject.events["kind"] == EventKind.C_CALL) & (
            self._of_frames()[sites.caller] == Spent.OWN
        )
        converting &= (self.whose == Spent.TORCH) & ~self._binds()
        allowed = _OF_AN_OPERATOR_NS * (self._operators + 1)
        excess = np.where(converting, self.self_ns - allowed, 0)
        outside += np.maximum(excess, 0)
        outside += self._idle_torch_python()
        writing = self._in_text_of_tensors() & (self.whose != Spent.IMPORT)
        outside = np.where(writing, self.self_ns, outside)
        return np.where(self._subject.is_main & ~self._waits_for_workers(), outside, 0)

    def _binds(self) -> Flags:
        """C functions that call the operator of their name: torch's way from Python to it.

        What those take that call another, such as torch.tensor of a list, they convert in.
        """
        subject, numbers = self._subject, dict[str, int]()
        inner = subject.outermost[self._called_by[subject.outermost] >= 0]
        texts, label = subject.listing.texts, subject.listing.label
        of_label = [numbers.setdefault(_function_of(text), len(numbers)) for text in texts]
        number = np.array([*of_label, -1], dtype=np.int64)[label]
        binds = np.zeros(len(self.self_ns), dtype=np.bool_)
        by = self._called_by[inner]
        binds[by[number[by] == number[inner]]] = True
        return np.asarray(binds & (subject.events["kind"] == EventKind.C_CALL))

    def _waits_for_workers(self) -> Flags:
        """What the program does until a DataLoader's workers deliver: waiting, and nothing else."""
        waiting = self._subject.named_like(LOADED_BY_WORKERS)
        return np.asarray(waiting | (nearest_ancestor(self._subject.parent, waiting) >= 0))

    def _idle_torch_python(self) -> Values:
        """torch's own Python below calls of which its operators are a small part."""
        subject = self._subject
        python = np.where(self.whose == Spent.TORCH_PYTHON, self.self_ns, 0)
        site = subject.sites.around
        frame, line = subject.sites.at
        group = group_rows(frame, line).group
        of_python = np.bincount(group, weights=python)
        of_torch = np.bincount(group, weights=np.where(self.whose == Spent.TORCH, self.self_ns, 0))
        idle = of_python > _PYTHON_PER_OPERATOR * of_torch
        counted = idle[group] & (site >= 0) & ~self._defined_in(*_MACHINERY)[site]
        return np.where(counted, python, 0)

    def _defined_in(self, *parts: str) -> Flags:
        """Calls of functions that stand in files with one of these in their path."""
        trace = self._subject.trace
        files = [trace.names[file] for file in trace.table("frames")["file"]]
        wanted = [any(part in file for part in parts) for file in files]
        return np.array([*wanted, False], dtype=np.bool_)[self._subject.sites.frame]

    def _in_text_of_tensors(self) -> Flags:
        """What turns tensors into text or files, with the operators it calls."""
        writing = self._defined_in(*_WRITERS)
        for name in _TEXT_OF_TENSOR:  # what of it the program calls itself
            writing |= self._subject.calls_of("torch/_tensor.py", name)
        return np.asarray(writing | (nearest_ancestor(self._subject.parent, writing) >= 0))


def _function_of(text: str) -> str:
    """``<built-in method stack of type object at 0x...>`` and ``aten::stack`` as stack."""
    if text.startswith("<built-in "):
        return text.removeprefix("<built-in ").partition(" ")[2].partition(" ")[0].rstrip(">")
    return text.rpartition("::")[2]


def _is_torch(file: str) -> bool:
    return file.startswith("torch/") or "/torch/" in file


def _count(rows: Values, size: int) -> Values:
    rows = rows[rows >= 0]
    return np.bincount(rows, minlength=size).astype(np.int64)
