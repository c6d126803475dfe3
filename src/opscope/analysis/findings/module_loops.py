"""Modules of one kind that get the same tensor, one after the other: heads, experts, ensembles."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.loop_backward import calling_backward_ns
from opscope.analysis.findings.loop_lines import part_work_ns
from opscope.analysis.findings.pattern import Evidence, Needs, Pattern
from opscope.analysis.findings.subject import Flags, Subject, Values
from opscope.analysis.quantity_text import share_text, time_text
from opscope.trace.row_groups import group_rows
from opscope.trace.schema import EventKind
from opscope.tree.ancestry import nearest_ancestor, subtree_sums

_FEWEST = 4
"""Of different modules: query, key and value are three, and often a line each."""

_MOSTLY, _WORTH_SAYING = 0.5, 0.02


def _find(subject: Subject) -> Evidence | None:
    calls = subject.line_calls
    modules, row = _called_modules(subject)
    alike, count = _alike(subject, modules, row)
    events = calls.events[row[alike]]
    if not len(events):
        return None
    took = calls.took_ns[row[alike]]
    work = np.maximum(subtree_sums(subject.parent, part_work_ns(subject))[events], 0)
    if work.sum() > _MOSTLY * took.sum():
        return None
    chosen = np.zeros(len(calls.events), dtype=np.bool_)
    chosen[row[alike]] = True
    backward = int(calling_backward_ns(subject, calls, chosen).sum())
    most = int(np.median(count[alike]))
    saved = (int((took - work).sum()) + backward) * (most - 1) // most
    if saved < _WORTH_SAYING * subject.wall_ns:
        return None
    return Evidence(
        events=events,
        event_time_ns=took,
        time_ns=int(took.sum()),
        explanation=(
            f"{most:,} modules of one class get the same tensor one after the other, "
            f"{len(events):,} calls of {time_text(int(took.sum()) // len(events))} each, of which "
            f"computing is {share_text(int(work.sum()) / max(int(took.sum()), 1))}. The rest is "
            "calling, once for every module, and again in the backward pass."
        ),
        saved_ns=min(saved, subject.wall_ns),
        saved_by=(
            "the calls of all modules but one, forward and backward, without what their operators "
            "take beyond the cost of a call: that remains when one module does the work of all"
        ),
    )


def _called_modules(subject: Subject) -> tuple[Values, Values]:
    """Modules that lines of the program call, and of each the call: position in the line calls.

    What such a module calls by itself, such as the layers of nn.Sequential, is not among them.
    """
    calls = subject.line_calls
    is_module = np.asarray(subject.events["kind"] == EventKind.MODULE_CALL)
    modules = np.flatnonzero(is_module)
    called = calls.row >= 0
    above = nearest_ancestor(subject.parent, called)[modules]
    by = np.where(called[modules], modules, above)
    known = (by >= 0) & (nearest_ancestor(subject.parent, is_module)[modules] < by)
    return modules[known], calls.row[by[known]]


def _alike(subject: Subject, modules: Values, row: Values) -> tuple[Flags, Values]:
    """Which are called with enough others of their class on the same tensor at the same line.

    Also how many different ones these are. Shape (modules,).
    """
    calls, memory = subject.line_calls, _given(subject, modules)
    keys = (calls.function[row], calls.group[row], _classes(subject)[modules], memory)
    group = group_rows(*keys).group
    different = group_rows(group, subject.events["name"][modules])
    count = np.bincount(different.columns[0], minlength=int(group.max(initial=-1)) + 1)[group]
    return np.asarray((count >= _FEWEST) & (memory != 0)), count


def _classes(subject: Subject) -> Values:
    """Of each event a number for its name without the number of an instance, as in Linear_3."""
    numbers: dict[str, int] = {}
    of_name = np.zeros(len(subject.trace.names) + 1, dtype=np.int64)
    for text, name in subject.names_used.items():
        of_name[name] = numbers.setdefault(text.rstrip("0123456789"), len(numbers))
    return of_name[subject.events["name"]]


def _given(subject: Subject, modules: Values) -> Values:
    """The memory of what the first operator in each module gets; 0 for none."""
    operators = subject.outermost
    if not len(operators):
        return np.zeros(len(modules), dtype=np.int64)
    at = np.minimum(np.searchsorted(operators, modules), len(operators) - 1)
    first = operators[at]
    memory = subject.tensor_column("storage", subject.tensor_argument(0)[first])
    inside = (first > modules) & (subject.start_ns[first] < subject.end_ns[modules])
    inside &= subject.events["thread"][first] == subject.events["thread"][modules]
    return np.where(inside & (memory > 0), memory, 0)


MODULES_ONE_BY_ONE = Pattern(
    id="modules-one-by-one",
    title="Modules of one kind get the same input one by one",
    advice=(
        "Let one module do the work of all: one nn.Linear with the outputs of all of them, seen as "
        "heads with view(); a grouped convolution; or torch.func.stack_module_state and torch.vmap "
        "for an ensemble."
    ),
    find=_find,
    needs=(Needs.SHAPES, Needs.IDENTITY, Needs.MODULES, Needs.STACKS),
    link="https://pytorch.org/tutorials/intermediate/ensembling.html",
)
