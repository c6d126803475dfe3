"""Loops of the program that process parts one by one.

Parts are slices of a tensor, tensors of a list, or modules of one class with the same input. One
call for all parts does the same work without the call overhead of Python.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from opscope.base.quantity_text import share_text, time_text
from opscope.columns.codes import ParameterRole
from opscope.columns.row_groups import group_rows, order_rows
from opscope.columns.schema import Role
from opscope.findings.line_calls import FEWEST_ROUNDS, LineCalls
from opscope.findings.loop_lines import (
    ASKS_THE_PROGRAM,
    CHOOSING,
    LoopLines,
    calling_backward_ns,
    calls_in_loops,
    measure_lines,
    sum_by_line,
)
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.repeated_values import computed_values
from opscope.findings.status import Status
from opscope.findings.subject import Flags, Subject, Values
from opscope.timeline.listing import launched_work

_ALIKE, _OF_NAMES = 2.5, 10.0
"""Lines of one loop run about equally often, within this factor; operators, if lines are unknown,
within the second one, because an iteration may call an operator several times."""

_OF_CALLS = 0.25  # least share of a line's calls that are such operators on tensors
_OF_INNER = 0.2  # a line with this share of its time in an inner loop is no loop itself

_IN_ORDER, _BACKWARD_IN_ORDER, _LINEAR = 0.5, 0.35, 0.95
"""Share of the call overhead that the fix saves if an iteration needs the previous one, in the
forward and the backward pass (measured for 40 time steps: nn.GRU and nn.RNN 0.4 to 0.6 and 0.1 to
0.3, nn.LSTM, which has a backward pass of its own on CPU, 0.7 and 0.6), and if all are sums and
products with numbers: a convolution or running sum."""

_OTHERS = 2  # most parts that one iteration visits, of each ``FEWEST_ROUNDS`` parts
_LEVELS = 3  # most calls of the program's functions between the loop and the operator on a part

_OF_LISTS, _ALONE_NS = 0.85, 1_500
"""Time of functions for lists on the CPU, relative to single operators (0.5 to 0.95, a norm 1 to
1.3); on a GPU, the fixed part of each kernel's time."""

_TOGETHER = tuple(f"aten::{name}" for name in (
    "add_", "sub_", "mul_", "div_", "lerp_", "addcmul_", "addcdiv_", "copy_", "zero_", "clamp_",
    "clamp_max_", "clamp_min_", "sqrt_", "neg_", "exp_", "abs_", "sign_", "pow_", "norm",
    "linalg_vector_norm",
))  # fmt: skip
"""Operators that have a form for lists of tensors."""

_MAKING = tuple(f"aten::{name}" for name in (
    "add", "sub", "mul", "div", "lerp", "addcmul", "addcdiv", "sqrt", "neg", "exp", "abs", "pow",
))  # fmt: skip
"""Likewise, with new tensors as results; only on parameters, because networks call these, too."""

_SPLITTING, _LONGEST_ROUND = ("aten::unbind", "aten::split", "aten::chunk"), 16
"""Operators that begin a loop over the parts of a tensor; most operators in an iteration."""

_TENSOR = "torch/_tensor.py"
_PLACES, _NUMBERS = 1_000_003, (1 << 62) - 1
"""Factor and mask of a hash of memory and offset."""


@dataclass(frozen=True)
class _Kind:
    """Kind of loop, by its parts.

    Attributes:
        find: lines with enough different parts in one call of their function: 1 for single numbers,
            2 for larger parts, 0 for none. Shape (lines,).
        fewest: fewest iterations.
        seen: what was seen, in words.
        work_ns: time of each event that remains; by default the computing time of the lines.
        mostly: least share of the loop's time that is not work.
    """

    find: Callable[[Subject, LineCalls], Values]
    fewest: int
    seen: str
    work_ns: Callable[[Subject], Values] | None = None
    mostly: float = 0.5


def _find(kind: _Kind, subject: Subject) -> Evidence | None:
    calls = calls_in_loops(subject)
    if not len(calls.events):
        return None
    lines = subject.once(measure_lines)
    if kind.work_ns is not None:
        work = subject.sums(kind.work_ns(subject))[calls.events]
        lines = replace(lines, work_ns=sum_by_line(calls, work))
    alike = _ALIKE if subject.sites.knows_lines else _OF_NAMES
    sizes, every = kind.find(subject, calls), np.ones(len(lines.rounds), dtype=np.bool_)
    chosen, _ = _loops(lines, sizes, kind, alike, every)
    # What is left of a loop around another one may have little call overhead.
    outer = chosen & ~_without_outer(subject, calls, lines, chosen)
    chosen, in_order = _loops(lines, sizes, kind, alike, ~outer)
    backward = calling_backward_ns(subject, calls, chosen[calls.group])
    rounds = np.maximum(lines.rounds, 1)
    work = np.where(lines.joins & (rounds < kind.fewest), 0, lines.work_ns)
    others = lines.frame[chosen & ~lines.is_linear & ~lines.joins]
    needs_previous = in_order & np.isin(lines.frame, others)
    linear = np.where(in_order, _LINEAR, 1.0)
    saved = (lines.time_ns - work) * np.where(needs_previous, _IN_ORDER, linear)
    saved += backward * np.where(needs_previous, _BACKWARD_IN_ORDER, linear)
    saved *= np.where(rounds < kind.fewest, 1.0, 1 - 1 / rounds)
    total = int(saved[chosen].sum())
    if not chosen.any() or total <= 0:
        return None
    looping = chosen & (rounds >= kind.fewest)  # without lines that split or join the parts
    first = int(np.argmax(np.where(looping, lines.time_ns, -1)))
    took = min(int(lines.time_ns[chosen].sum()), subject.wall_ns)
    each = int(lines.time_ns[chosen & (lines.frame == lines.frame[first])].sum())
    each //= max(int(rounds[first] * lines.calls[first]), 1)
    events = chosen[calls.group]
    passes = " and of its backward pass" if backward[chosen].any() else ""
    masks = " and masks that look at everything again" if lines.scans[looping].any() else ""
    return Evidence(
        events=calls.events[events],
        event_time_ns=calls.took_ns[events],
        time_ns=took,
        explanation=(
            f"{kind.seen}: {int(rounds[first]):,} rounds, {time_text(each)} each, of which "
            f"operators compute {share_text(int(lines.work_ns[chosen].sum()) / max(took, 1))}. "
            f"The rest is call overhead in Python{masks}."
        ),
        saved_ns=min(total, subject.wall_ns),
        saved_by=(
            f"the time of the loop{passes} without one iteration and without the computing time "
            "of its operators, which remains when all parts are handled at once"
            + (
                f"; {_IN_ORDER:.0%} of it ({_BACKWARD_IN_ORDER:.0%} of the backward pass), as each "
                "iteration depends on the previous one: a layer such as nn.GRU still runs one "
                "operator after the other, in C++"
                if needs_previous.any()
                else ""
            )
        ),
    )


def _loops(
    lines: LoopLines, sizes: Values, kind: _Kind, alike: float, among: Flags
) -> tuple[Flags, Flags]:
    """Lines in loops over parts with much call overhead; and those with dependent iterations."""
    chosen, in_order = (np.zeros(len(lines.rounds), dtype=np.bool_) for _ in range(2))
    looping = among & (lines.rounds >= kind.fewest)
    for anchor in np.flatnonzero((sizes > 0) & looping).tolist():
        ratio = lines.rounds / max(int(lines.rounds[anchor]), 1)
        of_function = lines.frame == lines.frame[anchor]
        loop = looping & of_function & (ratio <= alike) & (ratio >= 1 / alike)
        time_ns = lines.time_ns[loop].sum()
        if lines.is_step[loop].any() or lines.work_ns[loop].sum() > (1 - kind.mostly) * time_ns:
            continue
        if np.bitwise_or.reduce(lines.asks[loop]) == ASKS_THE_PROGRAM:
            continue
        carries = lines.carries[loop].any()
        if carries and sizes[anchor] == 1 and not lines.is_linear[loop].all():
            continue  # numbers of a schedule, such as a diffusion model's, are no parts
        in_order |= loop & carries
        chosen |= loop | (among & lines.joins & of_function & ~lines.is_step)
    return chosen, in_order


def _without_outer(subject: Subject, calls: LineCalls, lines: LoopLines, chosen: Flags) -> Flags:
    """Chosen lines without those whose time is mostly in other chosen lines."""
    flagged = subject.flags(calls.events[chosen[calls.group]])[:-1]
    inside = subject.inside(flagged)
    rows = np.flatnonzero(flagged & (inside >= 0))
    line = calls.group[calls.row[inside[rows]]]
    within = np.bincount(line, weights=subject.duration_ns[rows], minlength=len(chosen))
    kept = chosen & (within < _OF_INNER * lines.time_ns)
    return kept if kept.any() else chosen


def _parts(subject: Subject, calls: LineCalls) -> Values:
    """Lines that process many parts of tensors: 1 for single numbers, 2 for larger parts, 0: none.

    An offset identifies a part, whichever tensor has it: iterations may work on copies of their
    own.
    """
    found = np.zeros(len(calls.lines), dtype=np.int64)
    above = subject.inside(calls.row >= 0)
    has_tensors = len(subject.trace.table("tensors")) > 0
    event, part = _parts_passed(subject) if has_tensors else _parts_by_sequence(subject, calls)
    at = np.where(calls.row[event] >= 0, event, above[event])
    # Without arguments, the parts of nested calls are unknown.
    for _ in range(_LEVELS if has_tensors else 1):
        known = at >= 0
        part, at = part[known], at[known]
        if not len(at):
            break
        row = calls.row[at]
        parts = group_rows(calls.function[row], calls.group[row], *part.T)
        tensors = group_rows(*parts.columns[:4])
        # Each iteration of a loop visits other parts; repeated visits of the same parts are no
        # loop.
        visits = group_rows(tensors.group[parts.group], at, parts.group)
        visited = np.bincount(visits.columns[0])
        rounds = np.bincount(group_rows(*visits.columns[:2]).columns[0])
        many = tensors.count >= FEWEST_ROUNDS
        many &= _OTHERS * tensors.count * rounds >= FEWEST_ROUNDS * visited
        np.maximum.at(found, tensors.columns[1][many], tensors.columns[2][many])
        # A call that visits many parts is a loop itself, no iteration of a loop around it.
        outer = found[calls.group[row]] == 0
        part, at = part[outer], above[at[outer]]
    return found


def _parts_passed(subject: Subject) -> tuple[Values, npt.NDArray[np.int64]]:
    """Outermost operators with a tensor, and the part: size, memory, begin.

    The size is 1 or 2 as above. The memory is 0 unless another tensor selects the part.
    """
    tensors = subject.trace.table("tensors")
    event = tensors["event"].astype(np.int64)
    # torch iterates over the parts of a tensor to print it.
    other = subject.calls_of(_TENSOR, name="__repr__") | subject.calls_of(
        _TENSOR, name="__format__"
    )
    other |= subject.name_contains("enumerate(DataLoader)")
    wanted = subject.is_outermost & ~subject.within(other)
    rows = np.flatnonzero(wanted[event] & (tensors["storage"] != 0))
    memory, at = tensors["storage"][rows].astype(np.int64), tensors["storage_offset"][rows]
    memory[~subject.named(*CHOOSING)[event[rows]]] = 0
    part, selects = _chosen(subject, rows, at), subject.named("aten::select")[event[rows]]
    index = subject.scalar_argument(2)[event[rows]] + 1
    part[selects] = (part[selects] * _PLACES + index[selects]) & _NUMBERS
    dimensions = np.diff(tensors.lists("sizes").offsets)[rows]
    size = np.where(selects & (dimensions < 2) | (subject.elements[rows] <= 1), 1, 2)
    return event[rows], np.stack([size, memory, part], axis=1)


def _parts_by_sequence(subject: Subject, calls: LineCalls) -> tuple[Values, npt.NDArray[np.int64]]:
    """Parts if no arguments were recorded: indexing, and repeating sequences after a split."""
    found = [np.flatnonzero(subject.named("aten::select") & subject.is_outermost)]
    owner = calls.function[calls.row]  # arbitrary for events that no line calls
    splitting = subject.named(*_SPLITTING) & subject.is_outermost & (calls.row >= 0)
    for at in np.flatnonzero(splitting[subject.outermost]).tolist():
        after = subject.outermost[at + 1 : at + 1 + _LONGEST_ROUND * FEWEST_ROUNDS]
        after = after[owner[after] == owner[subject.outermost[at]]]
        name = subject.events["name"][after]
        lengths = np.flatnonzero(name[1 : _LONGEST_ROUND + 1] == name[:1]) + 1
        for length in lengths[lengths * FEWEST_ROUNDS <= len(after)].tolist():
            rounds = name[: length * FEWEST_ROUNDS].reshape(FEWEST_ROUNDS, length)
            if (rounds == rounds[0]).all():
                found.append(after[: rounds.size])
                break
    rows = np.concatenate(found)
    return rows, np.stack([np.full_like(rows, 2), np.zeros_like(rows), rows], axis=1)


def _chosen(subject: Subject, rows: Values, begin: Values) -> Values:
    """Part of each row: its begin or, if another tensor selects the part, that tensor's hash."""
    tensors = subject.trace.table("tensors")
    event, choosing = tensors["event"][rows], subject.named(*CHOOSING)
    is_whole = (tensors["argument"][rows] == 0) & (tensors["role"][rows] == Role.INPUT)
    by = rows[choosing[event] & ~is_whole]
    allocation, impl = (tensors[name][by].astype(np.int64) for name in ("allocation_id", "impl"))
    part = np.zeros(len(choosing), dtype=np.int64)
    number = np.where(allocation >= 0, allocation, impl)
    part[tensors["event"][by]] = (number * _PLACES + tensors["storage_offset"][by]) & _NUMBERS
    return np.where(choosing[event] & is_whole, part[event], begin)


def _tensors(subject: Subject, calls: LineCalls) -> Values:
    """Lines whose operators have a form for lists and get many tensors with different memory."""
    together = subject.named(*_TOGETHER) | (subject.named(*_MAKING) & _on_parameters(subject))
    operators = np.flatnonzero(together & subject.is_outermost)
    site = subject.sites.around[operators]
    # In a library function, the loop is the library's; but some methods of tensors are Python
    # functions of torch, such as norm().
    own = (subject.sites.frame < 0) | subject.calls_of(_TENSOR)
    row = np.where((site >= 0) & own[site], calls.row[site], -1)
    # A network or an optimizer that the line calls is no loop of the line.
    calling = subject.inside(subject.is_module_call | subject.is_training)[operators]
    called = (row >= 0) & (calling <= calls.function[row])
    operators, row = operators[called], row[called]
    count = len(calls.lines)
    every = np.bincount(calls.group, minlength=count)
    mostly = np.bincount(calls.group[row], minlength=count) >= _OF_CALLS * every
    # A tensor that the iteration made itself is not in the list.
    given = subject.tensor_argument(0)[operators]
    made_by = computed_values(subject).makers_of(subject.tensor_column("allocation_id", given))
    kept = made_by <= _last(calls)[row]
    memory, row = subject.tensor_column("storage", given[kept]), row[kept]
    pairs = group_rows(calls.group[row], calls.function[row], memory)
    tensors = group_rows(*pairs.columns[:2])
    many = np.zeros(count, dtype=np.int64)
    many[tensors.columns[0][tensors.count >= _LISTS.fewest]] = 2
    return np.where(mostly, many, 0)


def _last(calls: LineCalls) -> Values:
    """Row of the same call in the previous iteration; the number of events for the first."""
    order = order_rows(calls.group, calls.function, calls.what, calls.events)
    same = np.diff(group_rows(calls.group, calls.function, calls.what).group[order]) == 0
    last = np.full(len(order), len(calls.row), dtype=np.int64)
    last[order[1:][same]] = calls.events[order[:-1][same]]
    return last


def _on_parameters(subject: Subject) -> Flags:
    """Whether the first tensor of each event is a parameter of a module or an optimizer."""
    table = subject.trace.table("parameters")
    memory = table["storage"][table["role"] == ParameterRole.PARAMETER]
    given = subject.tensor_column("storage", subject.tensor_argument(0))
    return np.asarray(np.isin(given, memory) & (given > 0))


def _in_lists_ns(subject: Subject) -> Values:
    """Time of each event's work in a function for lists of tensors."""
    gpu, result = subject.trace.table("gpu"), np.zeros(len(subject.parent), dtype=np.int64)
    launched = launched_work(subject.trace)
    if len(launched):
        beyond = np.maximum(gpu["duration_ns"][launched] - _ALONE_NS, 0)
        np.add.at(result, gpu["launch"][launched], beyond)
        return result
    rows, tensor = subject.outermost, subject.tensor_argument(0)
    result[rows] = _OF_LISTS * subject.duration_ns[rows]
    # mul_ followed by add_ is one lerp, and so is the sum of two products.
    memory = subject.tensor_column("storage", tensor[rows])
    averaged = subject.named("aten::mul_")[rows[:-1]] & subject.named("aten::add_")[rows[1:]]
    result[rows[:-1][averaged & (memory[1:] == memory[:-1]) & (memory[1:] > 0)]] = 0
    product, total = subject.named("aten::mul")[rows], subject.named("aten::add")[rows]
    weighted = np.flatnonzero(product[:-2] & product[1:-1] & total[2:])
    result[rows[np.concatenate([weighted, weighted + 1])]] = 0
    return result


def _modules(subject: Subject, calls: LineCalls) -> Values:
    """Lines that call many modules of one class on the same tensor."""
    called = calls.row >= 0
    modules, outermost = np.flatnonzero(subject.is_module_call), subject.outermost
    by = np.where(called[modules], modules, subject.inside(called)[modules])
    # Without modules that such a module calls, such as the layers of nn.Sequential.
    own = (by >= 0) & (subject.inside(subject.is_module_call)[modules] < by)
    modules, row = modules[own], calls.row[by[own]]
    found = np.zeros(len(calls.lines), dtype=np.int64)
    if not len(modules) or not len(outermost):
        return found
    after = np.searchsorted(outermost, modules)
    first = outermost[np.minimum(after, len(outermost) - 1)]
    memory = subject.tensor_column("storage", subject.tensor_argument(0)[first])
    inside = (first > modules) & (subject.start_ns[first] < subject.end_ns[modules])
    inside &= subject.events["thread"][first] == subject.events["thread"][modules]
    given = inside & (memory > 0)
    keys = (
        calls.group[row],
        calls.function[row],
        subject.kind_of_name[modules],
        memory,
        subject.events["name"][modules],
    )
    names = group_rows(*(key[given] for key in keys))
    alike = group_rows(*names.columns[:4])
    found[alike.columns[0][alike.count >= _MODULES.fewest]] = 2
    return found


_PARTS = _Kind(_parts, FEWEST_ROUNDS, "A loop iterates over the parts of a tensor")
_LISTS = _Kind(_tensors, 8, "A loop updates many tensors one by one", _in_lists_ns, 0.0)
_MODULES = _Kind(_modules, 4, "Modules of one class process the same tensor one by one")

FOR_LOOP_INDEXING = Pattern(
    id="for-loop-indexing",
    status=Status.PYTHON,
    title="A Python loop iterates over the parts of a tensor",
    advice=(
        "Replace the loop by one operation on the whole tensor: arithmetic with broadcasting, "
        "slices, torch.arange, index_select, scatter_ or torch.stack; or torch.vmap the body. "
        "Give a network all samples at once, and a recurrent one all time steps (nn.GRU, "
        "nn.LSTM). torch.func.jacrev gives the gradients of many outputs together, and so does "
        "torch.autograd.grad(..., is_grads_batched=True). If all results together are too "
        "large, process a few hundred parts at a time."
    ),
    find=partial(_find, _PARTS),
    helped_by=(Needs.SHAPES, Needs.STACKS),
)

TENSOR_BY_TENSOR = Pattern(
    id="tensor-by-tensor",
    status=Status.PYTHON,
    title="A Python loop updates many tensors one by one",
    advice=(
        "Pass lists: torch._foreach_lerp_(averages, parameters, 0.01) and the other "
        "torch._foreach_* functions, torch.nn.utils.clip_grad_norm_, or "
        "torch.optim.swa_utils.get_ema_multi_avg_fn for moving averages."
    ),
    find=partial(_find, _LISTS),
    needs=(Needs.SHAPES, Needs.IDENTITY, Needs.STACKS),
    worth_saying=0.02,
)

MODULES_ONE_BY_ONE = Pattern(
    id="modules-one-by-one",
    status=Status.PYTHON,
    title="Modules of one class process the same input one by one",
    advice=(
        "Merge them into one module: one nn.Linear with all outputs, split into heads with "
        "view(); a grouped convolution; or torch.func.stack_module_state and torch.vmap for an "
        "ensemble."
    ),
    find=partial(_find, _MODULES),
    needs=(Needs.SHAPES, Needs.IDENTITY, Needs.MODULES, Needs.STACKS),
    worth_saying=0.02,
    link="https://pytorch.org/tutorials/intermediate/ensembling.html",
)
