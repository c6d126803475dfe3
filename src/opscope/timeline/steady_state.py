"""End of a program's start-up (imports, first allocations, first step), and its shut-down.

A step ends with an optimizer's ``step``, or else is an outermost module call. A program that marks
its steps with a schedule has excluded its start-up itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opscope.base.quantity_text import time_text
from opscope.columns.metadata_kinds import DETAIL, OVER, WARM
from opscope.columns.row_groups import group_rows
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData, derived
from opscope.timeline.arrays import Values
from opscope.timeline.signatures import medians
from opscope.timeline.steps import find_steps, module_calls, optimizer_steps
from opscope.timeline.stretches import union_of
from opscope.timeline.tree.event_tree import event_tree, nearest_ancestor
from opscope.timeline.tree.frame_text import event_texts

_FEWEST_STEPS = 5
_WORTH_LEAVING_OUT = 0.02
"""Minimum share of the recording; a shorter start-up changes no displayed share."""

_MUCH = 0.5
"""Maximum work before the first step, as a share of the rest of the recording: with more, a program
does more than start, unless it nearly only imports."""

_LITTLE = 0.1  # maximum share of operators in the time after the last step for a shut-down
_NEARLY_ALL = 0.75
"""Share of imports in the time before the first step from which it always is start-up."""

_UNUSUAL = 10  # an operator this many times slower than its median is a first call
_SLOW_START = 3  # the first module call is start-up if it takes this many times the median


@dataclass(frozen=True)
class StartUp:
    """Start-up and shut-down of a program."""

    took_ns: int = 0  # from the first event on; 0 if there is no start-up, or none was found
    end_ns: int = 0  # Unix nanoseconds; 0 for none
    imports_ns: int = -1  # part of it in imports; -1 if Python calls were not recorded
    ends_with: str = ""  # its end in words; empty for none
    over_ns: int = 0  # end of own code before exit functions, Unix time; 0: none or unknown
    exit_ns: int = 0  # duration of these functions

    @property
    def is_any(self) -> bool:
        """Whether there is anything to exclude."""
        return self.took_ns > 0 or self.exit_ns > 0

    def __str__(self) -> str:
        """One-line text; empty for none."""
        if not self.took_ns:
            return f"shut-down, {time_text(self.exit_ns)}" if self.exit_ns else ""
        took, imports = time_text(self.took_ns), ""
        if self.imports_ns > 0:
            imports = f", of which imports {time_text(self.imports_ns)}"
        leaving = f", and {time_text(self.exit_ns)} after its end" if self.exit_ns else ""
        return f"start-up, until {self.ends_with}: {took}{imports}{leaving}"


@derived
def find_start_up(trace: TraceData) -> StartUp:
    """Find start-up and shut-down, unless the program marks its steps; short ones do not count."""
    if not len(trace.events) or len(find_steps(trace)) or trace.metadata.get(WARM):
        return StartUp()
    start = _before_the_steps(trace)
    over, leaving = _after_the_program(trace)
    tree = event_tree(trace)
    last = _end_of_steps(trace, start.end_ns or int(tree.start_ns.min()), over)
    if last:
        over, leaving = last, int((tree.start_ns + tree.duration_ns).max()) - last
    return replace(start, over_ns=over, exit_ns=leaving)


def _end_of_steps(trace: TraceData, begin_ns: int, over_ns: int) -> int:
    """End of the optimizer's last step if the program only shuts down after it; otherwise 0.

    As before the first step, a lot of work or operators then are not part of the shut-down.
    """
    tree, rows = event_tree(trace), optimizer_steps(trace)
    if len(rows) < _FEWEST_STEPS:
        return 0
    ends = tree.start_ns + tree.duration_ns
    last, finish = int(ends[rows].max()), over_ns or int(ends.max())
    leaving_ns = finish - last
    if not _WORTH_LEAVING_OUT * (finish - begin_ns) <= leaving_ns <= _MUCH * (last - begin_ns):
        return 0
    is_late_operator = (trace.events["kind"] == EventKind.OPERATOR) & (ends > last)
    late = np.flatnonzero(is_late_operator & (nearest_ancestor(tree.parent, is_late_operator) < 0))
    busy_ns = union_of(np.maximum(tree.start_ns[late], last), ends[late]).total_ns
    return last if busy_ns <= _LITTLE * leaving_ns else 0


def _before_the_steps(trace: TraceData) -> StartUp:
    tree = event_tree(trace)
    end, words = _end_of_start_up(trace)
    begin = int(tree.start_ns.min())
    finish = int((tree.start_ns + tree.duration_ns).max())
    if not end or end - begin < _WORTH_LEAVING_OUT * (finish - begin):
        return StartUp()
    imports = _imports(trace, end)
    only_imports = imports > _NEARLY_ALL * (end - begin)
    if not only_imports and _busy_before(trace, end, begin, imports) > _MUCH * (finish - end):
        return StartUp()
    return StartUp(end - begin, end, imports, words)


def _end_of_start_up(trace: TraceData) -> tuple[int, str]:
    """End of the start-up, Unix nanoseconds, and in words; 0 without steps."""
    tree = event_tree(trace)
    ends = tree.start_ns + tree.duration_ns
    steps = optimizer_steps(trace)
    if len(steps) >= _FEWEST_STEPS:
        return int(ends[steps[0]]), "the first step of the optimizer"
    calls = module_calls(trace)
    if len(calls) < _FEWEST_STEPS:
        return 0, ""
    took = tree.duration_ns[calls]
    if took[0] > _SLOW_START * np.median(took[1:]):
        return int(ends[calls[0]]), "the first call of the network"
    return int(tree.start_ns[calls[0]]), "the beginning of the first call of the network"


def _after_the_program(trace: TraceData) -> tuple[int, int]:
    """End of the program's own code, and the duration of what ran afterwards; 0 for nothing."""
    tree, over = event_tree(trace), trace.metadata.get(OVER)
    if over is None:
        return _after_its_module(trace)
    late = tree.start_ns >= over
    if not late.any() or late.all():
        return 0, 0
    return over, int((tree.start_ns + tree.duration_ns)[late].max()) - over


def _after_its_module(trace: TraceData) -> tuple[int, int]:
    """Without that metadata: end of the main module, and duration of later events on its thread."""
    tree, events = event_tree(trace), trace.events
    is_python = (events["kind"] == EventKind.PYTHON_CALL) & (DETAIL not in trace.metadata)
    outermost = np.flatnonzero((tree.parent < 0) & is_python)
    if not len(outermost):
        return 0, 0
    label, texts = event_texts(trace)
    is_program = [texts[label[row]].endswith(": <module>") for row in outermost.tolist()]
    ends = tree.start_ns + tree.duration_ns
    program = outermost[is_program]
    over = int(ends[program].max()) if len(program) else 0
    late = np.flatnonzero(tree.start_ns >= over)
    at_exit = np.isin(events["thread"][late], events["thread"][program])
    if not over or not len(late) or not at_exit.all():
        return 0, 0
    return over, int(ends[late].max()) - over


def _imports(trace: TraceData, end_ns: int) -> int:
    """Time in imports before a moment; -1 if not recorded."""
    if DETAIL in trace.metadata or not (trace.events["kind"] == EventKind.PYTHON_CALL).any():
        return -1
    label, texts = event_texts(trace)
    importing = np.array(["importlib._bootstrap>" in text for text in texts], dtype=np.bool_)
    tree = event_tree(trace)
    rows = np.flatnonzero(importing[label] & (tree.start_ns < end_ns))
    ends = np.minimum(tree.start_ns[rows] + tree.duration_ns[rows], end_ns)
    return union_of(tree.start_ns[rows], ends).total_ns


def _busy_before(trace: TraceData, end_ns: int, begin_ns: int, imports_ns: int) -> int:
    """Time before a moment outside imports; in operators if imports were not recorded.

    The excess time of operators' first calls, which set up libraries, does not count.
    """
    tree, events = event_tree(trace), trace.events
    is_operator = events["kind"] == EventKind.OPERATOR
    outer = np.flatnonzero(is_operator & (nearest_ancestor(tree.parent, is_operator) < 0))
    usual = np.minimum(tree.duration_ns[outer], _UNUSUAL * _medians(trace, outer))
    before = tree.start_ns[outer] < end_ns
    if imports_ns < 0:
        return int(usual[before].sum())
    unusual = int((tree.duration_ns[outer] - usual)[before].sum())
    return end_ns - begin_ns - imports_ns - unusual


def _medians(trace: TraceData, rows: Values) -> Values:
    """Median duration of the events with the same name, for each row."""
    took = event_tree(trace).duration_ns[rows]
    alike = group_rows(trace.events["name"][rows])
    return medians(took, alike.group, len(alike))[alike.group]
