"""Measures lines in loops: iterations, time, and the part in which operators compute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.analysis.flops import count_flops
from opscope.columns.row_groups import group_rows, order_rows
from opscope.columns.schema import EventKind, Role
from opscope.findings.backward_passes import backward_steps, is_repeated_pass, steps_take_ns
from opscope.findings.line_calls import FEWEST_ROUNDS, LineCalls, positions, since_the_last
from opscope.findings.repeated_values import computed_values
from opscope.findings.subject import FLOAT_BYTES, FLOPS_A_NS, Flags, Subject, Values
from opscope.timeline.signatures import medians

_MUCH = 0.3
"""Share of a line's time in one callee; below a half, as list() and its generator both count."""

_MOSTLY = 0.5
"""Share of a line's iterations that use an earlier result, for a loop-carried dependency."""

VIEWING = ("aten::select", "aten::slice", "aten::narrow", "aten::unbind", "aten::detach")
CHOOSING = ("aten::index", "aten::index_select", "aten::masked_select")
"""Operators that read a whole tensor and return a part of it, by indices or a mask."""

_JOINING = ("aten::unbind", "aten::stack", "aten::split", "aten::chunk", "aten::cat")
_COMPARING = tuple(f"aten::{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge", "isin"))
_BY_MASK = ("aten::index", "aten::masked_select", "aten::index_put_")
_LINEAR = tuple(
    f"aten::{name}" for name in ("mul", "add", "sub", "rsub", "div", "lerp", "neg", "copy")
)
_GATHERING = ("aten::add", "aten::add_", "aten::mul", "aten::maximum", "aten::minimum", "aten::cat")
_READING = ("aten::_local_scalar_dense", "aten::resolve_neg")
_LAYERS = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")

FEW_ELEMENTS, _QUICK_NS, _ELEMENT_NS, _SLOW_ELEMENT_NS = 4_096, 100_000, 0.15, 5.0
"""Up to these elements, a quick operator's computing time is lost in its call overhead. Time of an
element in one operator over all parts, typical and (without vector instructions) longest."""

ASKS_THE_PROGRAM = 7
"""``asks`` of a loop whose next iteration the program's Python decides, such as an environment."""

_BACKWARD_WORK = 2
"""Work of a gradient relative to its forward operator: one product for each factor."""


@dataclass(frozen=True, eq=False)
class LoopLines:
    """Lines of the program with calls. Shape (lines,).

    Attributes:
        frame: function, row in frames.
        rounds: approximate iterations of the line in one call of its function.
        calls: calls of its function.
        time_ns: time of its calls on host and devices, with the Python code in between.
        work_ns: the part of it in which operators compute, without ``scans``.
        scans: an iteration looks for its part in all of a tensor, by a mask.
        is_step: most iterations have a part of a training step, or load data.
        joins: it splits a tensor in one call, or joins many parts.
        is_linear: it calls only sums, and products with numbers.
        carries: its iterations use results of earlier ones.
        asks: sum of 1 if values of tensors are read, 2 if tensors are made of values, 4 if
            functions of the program run without an operator.
    """

    frame: Values
    rounds: Values
    calls: Values
    time_ns: Values
    work_ns: Values
    scans: Flags
    is_step: Flags
    joins: Flags
    is_linear: Flags
    carries: Flags
    asks: Values


def calls_in_loops(subject: Subject) -> LineCalls:
    """Calls grouped by line; by operator name if lines are unknown."""
    return subject.line_calls if subject.sites.knows_lines else subject.once(_calls_by_name)


def _calls_by_name(subject: Subject) -> LineCalls:
    called = subject.is_operator | (subject.events["kind"] == EventKind.OPTIMIZER_CALL)
    called = subject.outermost_of(called)
    events = np.flatnonzero(called)
    parent = subject.parent[events].astype(np.int64)
    function = np.where(parent >= 0, parent, -1 - subject.events["thread"][events].astype(np.int64))
    name = subject.events["name"][events].astype(np.int64)
    lines = group_rows(np.zeros_like(name), name)
    return LineCalls(
        events=events,
        function=function,
        row=positions(events, len(called)),
        what=name,
        counts=np.ones(len(events), dtype=np.bool_),
        lines=np.stack(lines.columns, axis=1),
        group=lines.group,
        took_ns=since_the_last((subject.start_ns, subject.end_ns), events, function),
    )


def measure_lines(subject: Subject) -> LoopLines:
    """Measure all lines of the program with calls."""
    calls = calls_in_loops(subject)

    def inside(amount: Values | Flags) -> Values:
        return sum_by_line(calls, subject.sums(amount)[calls.events])

    functions = np.bincount(
        group_rows(calls.group, calls.function).columns[0], minlength=len(calls.lines)
    )
    on_devices = subject.duration_ns - (subject.end_ns - subject.start_ns)
    rounds = _rounds(calls) // np.maximum(functions, 1)
    # Repeated passes over one graph, one for each output, are no training steps.
    again = is_repeated_pass(subject)
    steps = subject.events["kind"] == EventKind.OPTIMIZER_CALL
    steps |= subject.name_contains("Optimizer.step#", "enumerate(DataLoader)")
    training = subject.sums(subject.is_training & ~steps)
    training -= 2 * subject.sums(again & subject.is_training)
    is_step = calls.counts & ((subject.sums(steps) > 0) | (training > 0))[calls.events]
    tensors = subject.trace.table("tensors")
    given = np.bincount(tensors["event"][tensors["role"] == Role.INPUT], minlength=len(again))
    joins = subject.named(*_JOINING[:-1])
    joins |= subject.named(*_JOINING) & (given >= FEWEST_ROUNDS)
    linear = subject.named(*_LINEAR, *(f"{name}_" for name in _LINEAR), *VIEWING)
    alone = subject.sites.defined_here & (subject.sums(subject.is_operator) == 0)
    scans = _scans(subject)
    work = np.where(scans, 0, part_work_ns(subject))
    asking = (subject.named(*_READING), subject.named("aten::lift_fresh"), alone)
    return LoopLines(
        frame=calls.lines[:, 0],
        rounds=rounds,
        calls=functions,
        time_ns=sum_by_line(calls, calls.took_ns + on_devices[calls.events]),
        work_ns=np.maximum(inside(work), 0),
        scans=inside(scans) > 0,
        is_step=2 * sum_by_line(calls, is_step) > rounds * functions,
        joins=inside(joins) > 0,
        is_linear=inside(subject.is_outermost & ~linear) == 0,
        # A layer for sequences handles their order itself.
        carries=_carries(subject, calls, rounds) & (inside(subject.named(*_LAYERS)) == 0),
        asks=sum((np.asarray(inside(of) > 0) << bit for bit, of in enumerate(asking)), rounds * 0),
    )


def sum_by_line(calls: LineCalls, values: Values | Flags) -> Values:
    """Sum over the calls of each line."""
    return np.bincount(calls.group, weights=values, minlength=len(calls.lines)).astype(np.int64)


def _rounds(calls: LineCalls) -> Values:
    """Iterations of each line: the median number of calls over its different callees.

    Exception: list() is called once, its generator in every iteration; likewise in a comprehension
    from Python 3.12 on. So a much more frequent callee with much of the time decides.
    """
    distinct = group_rows(calls.group, calls.what)
    line = distinct.columns[0]
    count = np.bincount(distinct.group, weights=calls.counts).astype(np.int64)
    rounds = medians(count, line, len(calls.lines))
    time_ns = np.bincount(distinct.group, weights=calls.took_ns)
    of_line_ns = np.bincount(line, weights=time_ns, minlength=len(calls.lines))
    often = (count >= FEWEST_ROUNDS * rounds[line]) & (time_ns > _MUCH * of_line_ns[line])
    rounds[line[often]] = count[often]
    return rounds


def _scans(subject: Subject) -> Flags:
    """Comparisons of one tensor that make a mask in each iteration, and operators that choose by
    it: one sort of that tensor finds all parts."""
    values = computed_values(subject)
    compares = np.flatnonzero(subject.named(*_COMPARING) & subject.is_outermost)
    compared = subject.tensor_column("allocation_id", subject.tensor_argument(0)[compares])
    same = group_rows(compared)
    again = compares[(compared >= 0) & (same.count[same.group] >= FEWEST_ROUNDS)]
    masks = subject.flags(again)[values.producer] & subject.named(*_BY_MASK)[values.event]
    return subject.flags(np.append(values.producer[masks], values.event[masks]))[:-1]


def part_work_ns(subject: Subject) -> Values:
    """Time of each outermost operator's work as a part of one operator over all iterations."""
    return subject.once(_part_work_ns)


def _part_work_ns(subject: Subject) -> Values:
    tensors, work = subject.trace.table("tensors"), subject.work_ns
    if not len(tensors):
        return work
    elements = np.bincount(tensors["event"], subject.elements[:-1], minlength=len(work))
    elements[subject.named(*VIEWING)] = 0
    choosing = subject.named(*CHOOSING) & (subject.bytes_made > 0)
    elements[choosing] = subject.bytes_made[choosing] // FLOAT_BYTES
    # Operators with more than twice the call cost compute, at plausible times per element.
    computes = np.where(work > subject.call_cost_ns, work, 0)
    took = np.clip(computes, elements * _ELEMENT_NS, elements * _SLOW_ELEMENT_NS)
    few = (elements <= FEW_ELEMENTS) & (subject.duration_ns < _QUICK_NS)
    took = np.where(few, took, work)
    # A layer over the whole sequence has its set-up only once.
    took[subject.named(*_LAYERS)] = 0
    flops = subject.sums(count_flops(subject.recorded).flops)
    products = np.minimum(flops / FLOPS_A_NS, subject.duration_ns)
    return np.where(subject.is_outermost, np.maximum(took, products), 0).astype(np.int64)


def _carries(subject: Subject, calls: LineCalls, rounds: Values) -> Flags:
    """Lines whose iterations mostly use an earlier result of a line that runs as often.

    Running sums do not count: one operator can sum all parts.
    """
    values, name, site = computed_values(subject), subject.events["name"], subject.sites.around
    event, producer = values.event, values.producer
    known = (producer >= 0) & (site[event] >= 0) & (site[producer] >= 0)
    known &= ~(subject.named(*_GATHERING)[event] & (name[event] == name[producer]))
    user, maker = calls.row[site[event[known]]], calls.row[site[producer[known]]]
    user, maker = user[(user >= 0) & (maker >= 0)], maker[(user >= 0) & (maker >= 0)]
    number = _round_numbers(subject, calls, rounds)
    again = (calls.function[user] == calls.function[maker]) & (number[maker] < number[user])
    again &= 2 * rounds[calls.group[maker]] > rounds[calls.group[user]]
    count = np.bincount(calls.group[np.unique(user[again])], minlength=len(rounds))
    functions = group_rows(calls.group, calls.function).columns[0]
    runs = rounds * np.bincount(functions, minlength=len(rounds))
    return np.asarray(count > _MOSTLY * np.maximum(runs, 1))


def _round_numbers(subject: Subject, calls: LineCalls, rounds: Values) -> Values:
    """Iteration number of each call, by counting equal calls; an iteration may have several."""
    alike = group_rows(
        calls.function,
        calls.group,
        subject.events["name"][calls.events],
        subject.sites.frame[calls.events],
    )
    order, count = order_rows(alike.group), alike.count
    place = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    each = np.maximum(count[alike.group] // np.maximum(rounds[calls.group], 1), 1)
    result = np.zeros(len(order), dtype=np.int64)
    result[order] = place // each[order]
    return result


def calling_backward_ns(subject: Subject, calls: LineCalls, chosen: Flags) -> Values:
    """Time of backward passes beyond computing, for the ``chosen`` calls. Shape (lines,).

    The gradient of a part is as large as the whole tensor; for each part, one is filled and added.
    Without the loop, this time and the call overhead disappear. ``chosen`` has shape (calls,).
    """
    steps, forward = backward_steps(subject)
    lines = subject.flags(calls.events[chosen])
    above, site = subject.inside(lines), subject.sites.around[forward]
    site = np.where(lines[site], site, above[site])
    # A backward pass inside one of the calls is part of the call's time.
    known = (forward >= 0) & (site >= 0) & (above[steps] < 0)
    took = steps_take_ns(subject)[known]
    steps, forward, site = steps[known], forward[known], site[known]
    of_forward = part_work_ns(subject)[subject.outermost_operator[forward]]
    work = np.minimum(_BACKWARD_WORK * np.maximum(of_forward, 0), subject.work_ns[steps])
    line = calls.group[calls.row[site]]
    saved = took - np.clip(work, 0, took)
    return np.bincount(line, weights=saved, minlength=len(calls.lines)).astype(np.int64)
