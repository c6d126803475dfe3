"""Lines of the program that call something, as loops over the parts of a tensor show in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.findings.backward_passes import is_repeated_pass
from opscope.analysis.findings.bytes_made import FLOAT_BYTES, bytes_made
from opscope.analysis.findings.growth import CONCATENATIONS
from opscope.analysis.findings.inner_loops import inner_loops
from opscope.analysis.findings.line_calls import FEWEST_ROUNDS, LineCalls
from opscope.analysis.findings.recurrent_layers import is_recurrent_layer, layers_take_ns
from opscope.analysis.findings.subject import FLOPS_A_NS, Flags, Subject, Values
from opscope.analysis.flops import count_flops
from opscope.analysis.grouped_medians import medians
from opscope.trace.row_groups import group_rows
from opscope.trace.schema import Role
from opscope.trace.shapes import element_counts
from opscope.tree.ancestry import nearest_ancestor, subtree_sums

_MUCH = 0.3
"""Of a line's time, in which what a call calls counts twice: list() of a generator, and that."""

_LEVELS = 3
"""Calls of the program's own functions between the loop and what handles a part of the tensor."""

_TENSOR = "torch/_tensor.py"
_JOINING = ("aten::unbind", "aten::stack", "aten::split", "aten::chunk")
_INDEXING = ("aten::select", "aten::slice", "aten::narrow")
_CHOOSING = ("aten::index", "aten::index_select", "aten::masked_select")
"""These get all of a tensor and make a part of it, by indices or a mask."""

_LINEAR = ("aten::mul", "aten::add", "aten::sub", "aten::rsub", "aten::div", "aten::lerp")
_PLACES, _NUMBERS = 1_000_003, (1 << 62) - 1
"""A number for a place in some memory."""

_UNKNOWN_ELEMENTS = 1 << 20

_VIEWING = ("aten::select", "aten::slice", "aten::narrow", "aten::unbind", "aten::detach")

FEW_ELEMENTS, _QUICK_NS, _ELEMENT_NS, _ROW_NS = 4_096, 100_000, 0.15, 1.5
"""So few elements take no time that could be told from that of calling a quick operator.

Handled with all others at once, an element takes about so long, without recording and waiting, and
a row of two or four that lie apart from others' (measured with torch.maximum over 2.25 million).
"""

_SLOW_ELEMENT_NS, _SLOW_ROW_NS = 5.0, 12.0
"""At most so long: tanh without vectors, and rows in memory that is not in the nearest cache."""


@dataclass(frozen=True)
class LoopLines:
    """Lines of the program that call something. Shape (lines,).

    Attributes:
        frame: function, row in frames.
        line: in its file.
        rounds: how often the line was run, about, in a call of its function.
        calls: of its function.
        time_ns: in what it calls, and on the way there.
        work_ns: of that, computing.
        is_step: part of a training step, or loading data, is among what it calls.
        part_elements: of the parts that it takes of a tensor, as most are; 0 where it takes none.
        joins: it does so at once, or puts parts together.
        is_linear: it calls nothing but sums, and products with numbers.
        goes_back: it goes back over a graph that it has gone over before.
        runs_layers: it calls a recurrent layer, which could have a whole sequence at once.
        made_bytes: what all rounds in a call of its function allocate; 0 without memory recorded.
    """

    frame: Values
    line: Values
    rounds: Values
    calls: Values
    time_ns: Values
    work_ns: Values
    is_step: Flags
    part_elements: Values
    joins: Flags
    is_linear: Flags
    goes_back: Flags
    runs_layers: Flags
    made_bytes: Values


def measure_lines(subject: Subject, calls: LineCalls) -> LoopLines:
    """Of all lines of the program that call something."""
    count = len(calls.lines)
    work = subtree_sums(subject.parent, part_work_ns(subject))[calls.events]
    again = is_repeated_pass(subject)
    whole = (subject.is_training & ~again) | subject.named_like("enumerate(DataLoader)")
    steps = subtree_sums(subject.parent, whole.astype(np.int64))[calls.events]
    passes = subtree_sums(subject.parent, again.astype(np.int64))[calls.events]
    layers = subtree_sums(subject.parent, is_recurrent_layer(subject).astype(np.int64))[
        calls.events
    ]
    made = subtree_sums(subject.parent, bytes_made(subject))[calls.events]
    functions = np.bincount(group_rows(calls.group, calls.function).columns[0], minlength=count)
    return LoopLines(
        frame=calls.lines[:, 0],
        line=calls.lines[:, 1],
        rounds=_rounds(calls) // np.maximum(functions, 1),
        calls=functions,
        time_ns=sum_by_line(calls.group, calls.took_ns, count),
        work_ns=np.maximum(sum_by_line(calls.group, work, count), 0),
        is_step=sum_by_line(calls.group, steps, count) > 0,
        part_elements=_part_elements(subject, calls),
        joins=_joins(subject, calls),
        is_linear=_is_linear(subject, calls),
        goes_back=sum_by_line(calls.group, passes, count) > 0,
        runs_layers=sum_by_line(calls.group, layers, count) > 0,
        made_bytes=sum_by_line(calls.group, made, count) // np.maximum(functions, 1),
    )


def part_work_ns(subject: Subject) -> Values:
    """Made once."""
    return subject.once(_part_work_ns)


def _part_work_ns(subject: Subject) -> Values:
    """What each outermost operator would take of one that does the work of all rounds."""
    tensors, rows = subject.trace.table("tensors"), subject.outermost
    if not len(tensors):
        return subject.work_ns
    counts = element_counts(tensors.lists("sizes"))
    elements = np.bincount(tensors["event"], weights=counts, minlength=len(subject.parent))
    elements[subject.named(*_VIEWING)] = 0
    choosing = subject.named(*_CHOOSING) & (bytes_made(subject) > 0)
    elements[choosing] = bytes_made(subject)[choosing] // FLOAT_BYTES
    few = np.zeros(len(subject.parent), dtype=np.bool_)
    quick = subject.duration_ns[rows] < _QUICK_NS
    few[rows] = (elements[rows] <= FEW_ELEMENTS) & quick
    begun = np.zeros(len(subject.parent), dtype=np.int64)
    np.maximum.at(begun, tensors["event"], inner_loops(tensors))
    begun[subject.named(*_VIEWING)] = 0
    took = elements * _ELEMENT_NS + begun * _ROW_NS
    most = elements * _SLOW_ELEMENT_NS + begun * _SLOW_ROW_NS
    # What takes more than calling it twice would computes, and no slower than can be.
    computes = subject.work_ns > subject.call_cost_ns
    took = np.where(computes, np.clip(subject.work_ns, took, most), took)
    took = np.where(few, took, subject.work_ns)
    # Each call of such a layer sets up what one for the whole sequence sets up once.
    took[is_recurrent_layer(subject)] = 0
    products = np.maximum(_products_ns(subject), layers_take_ns(subject))
    return np.maximum(took, np.minimum(products, subject.duration_ns)).astype(np.int64)


def _products_ns(subject: Subject) -> Values:
    """What each outermost operator needs at least for its products, however few calls there are."""
    flops = subtree_sums(subject.parent, count_flops(subject.trace).flops)
    took = np.zeros(len(subject.parent), dtype=np.int64)
    rows = subject.outermost
    took[rows] = flops[rows] / FLOPS_A_NS
    return took


def _is_linear(subject: Subject, calls: LineCalls) -> Flags:
    """Lines where no operator but those of a linear recurrence is called."""
    linear = subject.named(*_LINEAR, *(f"{name}_" for name in _LINEAR), *_VIEWING)
    others = np.zeros(len(subject.parent), dtype=np.int64)
    others[subject.outermost] = ~linear[subject.outermost]
    found = subtree_sums(subject.parent, others)[calls.events]
    return np.asarray(sum_by_line(calls.group, found, len(calls.lines)) == 0)


def _joins(subject: Subject, calls: LineCalls) -> Flags:
    """Lines that take a tensor apart at once, or put the parts together."""
    # Results of a loop are as many as it has rounds.
    many = _tensors_given(subject) >= FEWEST_ROUNDS
    joins = subject.named(*_JOINING) | (subject.named(*CONCATENATIONS) & many)
    joining = joins[calls.events]
    inner = subject.sites.around[np.flatnonzero(joins)]
    joining[calls.row[inner[(inner >= 0) & (calls.row[inner] >= 0)]]] = True
    return sum_by_line(calls.group, joining.astype(np.int64), len(calls.lines)) > 0


def _tensors_given(subject: Subject) -> Values:
    """How many each event got, in lists as well. Shape (events,)."""
    tensors = subject.trace.table("tensors")
    given = tensors["event"][tensors["role"] == Role.INPUT]
    return np.bincount(given, minlength=len(subject.parent))


def _rounds(calls: LineCalls) -> Values:
    """How often each line was run: the median of how often it calls each thing it calls.

    But a line that takes all that a generator makes calls list() once, and the generator in every
    round: where much of its time is in what is called so much more often, that tells.
    """
    distinct = group_rows(calls.group, calls.what)
    line = distinct.columns[0]
    count = np.bincount(distinct.group, weights=calls.counts).astype(np.int64)
    rounds = medians(count, line, len(calls.lines))
    time_ns = sum_by_line(distinct.group, calls.took_ns, len(count))
    of_line_ns = np.bincount(line, weights=time_ns, minlength=len(calls.lines))
    often = (count >= FEWEST_ROUNDS * rounds[line]) & (time_ns > _MUCH * of_line_ns[line])
    rounds[line[often]] = count[often]
    return rounds


def _part_elements(subject: Subject, calls: LineCalls) -> Values:
    """Of lines where what is called gets many different parts of the same tensor, how large."""
    found = np.zeros(len(calls.lines), dtype=np.int64)
    above = nearest_ancestor(subject.parent, calls.row >= 0).astype(np.int64)
    event, part = _parts(subject)
    of_program = ~_in_text(subject)[event]
    event, part = event[of_program], part[of_program]
    at = np.where(calls.row[event] >= 0, event, above[event])
    for level in range(_LEVELS):
        known = at >= 0
        part, at = part[known], at[known]
        if level:
            single = ~_goes_over_many(at, part)
            part, at = part[single], at[single]
        if not len(at):
            break
        row = calls.row[at]
        keys = (calls.function[row], calls.group[row], part[:, 0], part[:, 1])
        parts = group_rows(*keys)
        tensors = group_rows(*parts.columns[:3])
        # Memory that was another tensor's before has a part or two of that as well.
        elements = medians(part[parts.first, 2], tensors.group, len(tensors))
        many = tensors.count >= FEWEST_ROUNDS
        np.maximum.at(found, tensors.columns[1][many], np.maximum(elements[many], 1))
        at = above[at]
    return found


def _goes_over_many(at: Values, part: npt.NDArray[np.int64]) -> Flags:
    """Which parts are of a call that goes over many of them: it is no round of a loop around it."""
    parts_of = group_rows(*group_rows(at, part[:, 0], part[:, 1]).columns[:2])
    many = parts_of.columns[0][parts_of.count >= FEWEST_ROUNDS]
    return np.isin(at, many)


def _in_text(subject: Subject) -> Flags:
    """Events that make the text of a tensor: torch goes over its parts for that, and not the
    program, which prints it."""
    makes_text = subject.calls_of(_TENSOR, "__repr__") | subject.calls_of(_TENSOR, "__format__")
    return np.asarray(nearest_ancestor(subject.parent, makes_text) >= 0)


def _parts(subject: Subject) -> tuple[Values, npt.NDArray[np.int64]]:
    """Outermost operators that got a tensor, with its memory, where in it the tensor begins, and
    how many elements it has.

    Where arguments were not recorded: those that index, each with a part of its own.
    """
    tensors = subject.trace.table("tensors")
    if not len(tensors):
        rows = np.flatnonzero(subject.named(*_INDEXING) & (subject.operator_parent < 0))
        unknown = np.full_like(rows, _UNKNOWN_ELEMENTS)
        return rows, np.stack([np.zeros_like(rows), np.arange(len(rows)), unknown], axis=1)
    event = tensors["event"].astype(np.int64)
    rows = np.flatnonzero((subject.operator_parent[event] < 0) & (tensors["storage"] != 0))
    memory, at = tensors["storage"][rows].astype(np.int64), tensors["storage_offset"][rows]
    elements = element_counts(tensors.lists("sizes"))[rows]
    chosen = _chosen(subject, rows)
    at = np.where(chosen >= 0, chosen, at)
    return event[rows], np.stack([memory, at, elements], axis=1)


def _chosen(subject: Subject, rows: Values) -> Values:
    """Of tensors, rows of their table, which part of it is chosen; -1 for others.

    Another tensor says that: where it is the same one, so is the part. One that lasts a round
    alone may be where that of the round before was, but is another allocation.
    """
    tensors = subject.trace.table("tensors")
    event, choosing = tensors["event"][rows], subject.named(*_CHOOSING)
    is_whole = (tensors["argument"][rows] == 0) & (tensors["role"][rows] == Role.INPUT)
    chosen = np.where(choosing[event] & is_whole, 0, -1)
    by = np.flatnonzero(choosing[event] & ~is_whole)
    allocation = tensors["allocation_id"][rows[by]].astype(np.int64)
    number = np.where(allocation >= 0, allocation, tensors["impl"][rows[by]].astype(np.int64))
    part = np.zeros(len(choosing), dtype=np.int64)
    part[event[by]] = (number * _PLACES + tensors["storage_offset"][rows[by]]) & _NUMBERS
    return np.where(chosen == 0, part[event], -1)


def sum_by_line(group: Values, values: Values, groups: int) -> Values:
    """Of each line the sum over what it calls."""
    return np.bincount(group, weights=values, minlength=groups).astype(np.int64)
