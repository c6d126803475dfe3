"""Tensors that grow or are kept from iteration to iteration, and a device's memory pool."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opscope.analysis.function_lines import keeping_line
from opscope.analysis.sites import Place
from opscope.base.quantity_text import bytes_text, time_text
from opscope.columns.row_groups import group_rows, order_rows
from opscope.columns.schema import AllocationAction, Role
from opscope.findings.backward_passes import has_backward
from opscope.findings.loop_lines import CHOOSING
from opscope.findings.pattern import TENSORS, Evidence, Needs, Pattern
from opscope.findings.patterns.gradients import NO_GRAD
from opscope.findings.repeated_values import computed_values
from opscope.findings.status import Status
from opscope.findings.subject import CUDA, Flags, Subject, Values

CONCATENATIONS = ("aten::cat", "aten::concat", "aten::concatenate", "aten::hstack", "aten::vstack")
_FEWEST = 8
_LEAST_BYTES, _LEAST_SHARE = 1 << 20, 0.2
"""Least growth of memory: in total, and as a share of the peak."""

_MUCH_MORE = 4  # most that one iteration counts, in medians over all iterations

_STEADY, _MOST_OF_IT = 0.6, 0.5
"""Least share of iterations that keep memory, and of the recording that they cover."""

_READING = ("aten::item", "aten::is_nonzero", "aten::detach", "aten::ones_like")
"""Operators that keep none of their inputs; backward() begins with the last one."""


_DETACHED = (
    "Store detached tensors: losses.append(loss.detach()), total += loss.detach(), state = "
    "state.detach() between steps. Clear lists that only grow."
)
_STORED = (
    "Limit or clear what this line stores, remove hooks that are no longer needed, and store "
    "x[0].clone() in place of x[0], which keeps all of x. Store x.detach() of what needs gradients."
)
_LIMITED = (
    "Limit or clear the list or cache that only grows, or write results out as they come. If the "
    "program needs all of them, nothing is wrong."
)
_CACHE = (
    "Give the network only the new part, and keep what it computed of earlier ones: keys and "
    "values of attention (a KV cache, use_cache=True in transformers), or a recurrent state."
)


def _find_growing(subject: Subject) -> Evidence | None:
    """Concatenations of everything gathered so far, and what is computed of their results again:
    operators outside networks, or networks that read a longer prefix in each call."""
    is_join = subject.named(*CONCATENATIONS) & subject.is_outermost
    # The first tensor of a list may be the previous result, or chosen from it, as beams are.
    first, values = subject.tensor_argument(0), computed_values(subject)
    joins = np.flatnonzero(is_join & (first >= 0))
    maker = _makers(subject, first[joins])
    choosing = np.append(subject.named(*CHOOSING), False)
    maker = np.where(choosing[maker], _makers(subject, np.append(first, -1)[maker]), maker)
    longer = _of_longer_lists(subject, joins)
    growing = joins[np.append(is_join, False)[maker] | longer]
    if len(growing) < _FEWEST:
        return None
    networks, reading_ns = _reading_again(subject, growing)
    inside = subject.within(subject.is_module_call | subject.is_training)
    apart = subject.is_outermost & ~subject.wants_gradients & ~inside
    computed = apart & values.leads_to(subject.flags(joins[longer])[:-1], apart)
    events = np.union1d(growing, np.flatnonzero(computed))
    total = subject.time_ns(events)
    reads = f" Networks read all of it again in {len(networks):,} calls." if len(networks) else ""
    return Evidence(
        events=np.concatenate([networks, events]),
        explanation=(
            f"{len(growing):,} concatenations each copy what the previous one copied: the "
            "cost grows with the square of their number. So far, with the operators on their "
            f"results outside networks, it is {subject.share(total)} of the time.{reads}"
        ),
        saved_ns=total - total // len(growing) + reading_ns,
        saved_by="all concatenations but one, and what computes the earlier part of results again",
        advice=_CACHE if reading_ns > total else "",
    )


def _makers(subject: Subject, tensors: Values) -> Values:
    """Outermost operator that made each of these rows of ``tensors``; -1 for none."""
    return computed_values(subject).makers_of(subject.tensor_column("allocation_id", tensors))


def _reading_again(subject: Subject, growing: Values) -> tuple[Values, int]:
    """Calls of networks without a backward pass on results of growing concatenations, and their
    computing time in proportion to what an earlier call read already."""
    values, network = computed_values(subject), subject.outermost_of(subject.is_module_call)
    around, joined = subject.inside(network), subject.flags(growing)
    reads = joined[values.producer] & (around[values.event] >= 0)
    reads &= (around[values.producer] < 0) & ~has_backward(subject, values.event)
    calls, at = np.unique(around[values.event[reads]], return_index=True)
    size = subject.elements[values.rows[reads]][at]
    before = np.minimum(np.append(0, size[:-1]), size)
    if len(calls) < _FEWEST or (np.diff(size) > 0).mean() < _STEADY:
        return calls[:0], 0
    work = subject.sums(np.maximum(subject.work_ns, 0))[calls]
    return calls, int((work * (before / size)).sum())


def _of_longer_lists(subject: Subject, joins: Values) -> Flags:
    """Which concatenations are at a line whose lists grow. Shape (joins,)."""
    tensors, (frame, line) = subject.trace.table("tensors"), subject.sites.at
    given = np.bincount(tensors["event"][tensors["role"] == Role.INPUT], minlength=len(line))[joins]
    lines = group_rows(frame[joins], line[joins])
    order = order_rows(lines.group, joins)
    same, more = np.diff(lines.group[order]) == 0, np.diff(given[order])
    of = lines.group[order[1:]]
    shorter, growth = (np.bincount(of, same * by, len(lines)) for by in (more < 0, more))
    grows = (lines.count >= _FEWEST) & (shorter == 0) & (growth >= _STEADY / 2 * lines.count)
    return np.asarray(grows[lines.group])


def _find_kept(subject: Subject) -> Evidence | None:
    """Memory that every iteration allocates and nothing frees until the end of the recording."""
    table = subject.trace.table("allocations")
    freed = table["allocation_id"][table["action"] == AllocationAction.FREE]
    taken = (table["action"] == AllocationAction.ALLOCATE) & (table["allocation_id"] >= 0)
    kept = taken & (table["event"] >= 0) & ~np.isin(table["allocation_id"], freed)
    size, event = table["size_bytes"][kept], table["event"][kept].astype(np.int64)
    rounds = _rounds(subject, np.bincount(event, size, len(subject.parent)).astype(np.int64))
    if rounds is None:
        return None
    row = np.searchsorted(rounds, event, side="right") - 1
    inside = (row >= 0) & (row < len(rounds) - 1)
    by_round = np.bincount(row[inside], weights=size[inside], minlength=len(rounds) - 1)
    typical = int(np.median(by_round))
    # Memory that only one iteration keeps, such as the last one's gradients, is no growth.
    peak = int(max(np.cumsum(table["size_bytes"]).max(initial=0), 1))
    total = min(int(np.minimum(by_round, _MUCH_MORE * typical).sum()), peak)
    if typical <= 0 or (by_round >= typical / 4).mean() < _STEADY:
        return None
    if total < max(_LEAST_BYTES, _LEAST_SHARE * peak):
        return None
    makers = subject.outermost_operator[event[inside]]
    events, group = np.unique(makers[makers >= 0], return_inverse=True)
    weight = np.bincount(group.reshape(-1), size[inside][makers >= 0]).astype(np.int64)
    names, group = np.unique(subject.events["name"][events], return_inverse=True)
    most = np.argsort(-np.bincount(group.reshape(-1), weight))[:3]
    largest = ", ".join(subject.trace.names[int(names[i])] for i in most)
    graph, advice = "", _LIMITED
    if subject.wants_gradients[events].any():
        graph = (
            "A tensor that requires gradients keeps everything that its graph saved for the "
            "backward pass. "
        )
        advice = "" if subject.is_backward.any() else f"{NO_GRAD} {_DETACHED}"
    places, is_stored = _keeper(subject, rounds, events, weight)
    return Evidence(
        events=events,
        explanation=(
            f"{len(rounds) - 1:,} iterations each keep about {bytes_text(typical)}: "
            f"{bytes_text(total)} at the end, of {bytes_text(peak)} at the peak. {graph}"
            f"The largest part was allocated by {largest}."
        ),
        saved_ns=None,
        saved_by="saves memory; the effect on time is unknown",
        saved_bytes=total - typical,
        saved_bytes_share=(total - typical) / peak,
        places=places,
        advice=_STORED if is_stored else advice,
    )


def _rounds(subject: Subject, kept_bytes: Values) -> Values | None:
    """Rows where iterations start: calls of the line in a loop with most kept memory.

    From its first to its last call, at least half of the time passes. The last entry is the number
    of events. None without such a line.

    Args:
        subject: the trace.
        kept_bytes: memory that each event allocates and nothing frees. Shape (events,).
    """
    lines = subject.line_calls
    if not len(lines.events):
        return None
    start, count = subject.start_ns[lines.events], np.bincount(lines.group)
    first, last = np.full(len(count), np.iinfo(np.int64).max), np.zeros(len(count), np.int64)
    np.minimum.at(first, lines.group, start)
    np.maximum.at(last, lines.group, start)
    functions = np.bincount(group_rows(lines.group, lines.function).columns[0])
    size = subject.sums(kept_bytes)[lines.events]
    by_line = np.bincount(lines.group, weights=size)
    by_line[count // functions < _FEWEST] = 0
    by_line[last - first < _MOST_OF_IT * subject.wall_ns] = 0
    if not by_line.any():
        return None
    at = lines.group == int(np.argmax(by_line))
    beat, largest = lines.events[at], lines.events[at][np.argmax(size[at])]
    beat = beat[subject.events["name"][beat] == subject.events["name"][largest]]
    return np.append(beat, len(subject.parent)).astype(np.int64)


def _keeper(
    subject: Subject, rounds: Values, events: Values, kept_bytes: Values
) -> tuple[tuple[Place, ...], bool]:
    """Lines that keep the memory: an operator on an earlier result, or an append to a list.

    And whether a function stores its argument there.
    """
    least = _STEADY * (len(rounds) - 1)
    rows = _carried(subject, rounds)
    places = subject.sites.places(rows, subject.duration_ns[rows])
    regular = tuple(one for one in places if one.file and one.occurrences >= least)
    beat = int(rounds[0])
    if known := regular or _assigning(subject, beat, events, kept_bytes):
        return known, False
    if known := _storing(subject, beat, least):
        return known, True
    by_time = subject.sites.places(events, subject.duration_ns[events])
    took = {str(one): one.time_ns for one in by_time}
    by_bytes = subject.sites.places(events, kept_bytes)
    places = tuple(replace(one, time_ns=took.get(str(one), 0)) for one in by_bytes)
    return tuple(one for one in places if one.occurrences >= least) or places, False


def _assigning(
    subject: Subject, beat: int, events: Values, kept_bytes: Values
) -> tuple[Place, ...]:
    """Line that stores the result of the line with most kept memory; empty if unknown."""
    lines, frames = subject.line_calls, subject.trace.table("frames")
    of_function = lines.events[lines.function == lines.function[lines.row[beat]]]
    called = subject.flags(of_function)[:-1]
    around = np.where(called[events], events, subject.inside(called)[events])
    around, size = around[around >= 0], kept_bytes[around >= 0]
    if not len(around):
        return ()
    group = lines.group[lines.row[around]]
    frame, line = lines.lines[int(np.argmax(np.bincount(group, size)))].tolist()
    file, first = subject.trace.names[frames["file"][frame]], int(frames["line"][frame])
    at = keeping_line(subject.recorded, file, first, line)
    count = len(np.unique(around))
    place = subject.sites.place(frame, at, -1, count, subject.time_ns(events))
    return () if at < 0 else (place,)


def _storing(subject: Subject, beat: int, least: float) -> tuple[Place, ...]:
    """Lines of functions, such as hooks, that store an argument in nearly every iteration."""
    table, names, sites = subject.trace.table("frames"), subject.trace.names, subject.sites
    calls = np.flatnonzero(sites.defined_here)
    frames, count = np.unique(sites.frame[calls[calls >= beat]], return_counts=True)
    found = []
    for frame, times in zip(frames[count >= least].tolist(), count[count >= least], strict=True):
        file, first = names[table["file"][frame]], int(table["line"][frame])
        if (at := keeping_line(subject.recorded, file, first)) >= 0:
            found.append(sites.place(frame, at, -1, int(times), 0))
    return tuple(found)


def _carried(subject: Subject, rounds: Values) -> Values:
    """Rows of the program's operators on tensors with gradients from an earlier iteration."""
    tensors, training = subject.trace.table("tensors"), subject.is_training
    rows = np.flatnonzero(tensors["requires_grad"] & (tensors["allocation_id"] >= 0))
    event = tensors["event"][rows].astype(np.int64)
    made = computed_values(subject).makers_of(tensors["allocation_id"][rows])
    # 0: before the iterations, such as parameters
    made_in = np.searchsorted(rounds, made, side="right")
    earlier = (made_in > 0) & (made_in < np.searchsorted(rounds, event, side="right"))
    inside = training | subject.within(training) | subject.named(*_READING)
    wanted = earlier & (made >= 0) & (subject.operator_parent[event] < 0) & ~inside[event]
    return np.unique(event[wanted])


def _find_device_growth(subject: Subject) -> Evidence | None:
    """Allocations during which the device's pool grew: each asked the driver, which is slow."""
    table = subject.trace.table("allocations")
    on_device = np.flatnonzero((table["device_type"] == CUDA) & (table["event"] >= 0))
    if len(on_device) < 2:
        return None
    device = table["device_index"][on_device]
    by_device = on_device[np.argsort(device, kind="stable")]
    reserved, index = table["total_reserved_bytes"][by_device], table["device_index"][by_device]
    grew = np.append(False, (np.diff(reserved) > 0) & (np.diff(index) == 0))
    events = np.unique(table["event"][by_device[grew]]).astype(np.int64)
    took = subject.operator_self_ns[events]
    total = int(took.sum())
    if len(events) < 2:
        return None
    return Evidence(
        events=events,
        event_time_ns=took,
        explanation=(
            f"The GPU's memory pool grew {len(events):,} times, {time_text(total)} in total. "
            "Each time the driver allocates memory and waits for the device."
        ),
        saved_ns=total,
        saved_by="self time of the operators during which the pool grew",
    )


GROWING_CONCATENATION = Pattern(
    id="growing-concatenation",
    title="Everything gathered so far is processed again each time",
    advice=(
        "Call torch.cat once, at the end, or write into one preallocated tensor; compute a metric "
        "of all that was gathered every N steps, or from running sums as torchmetrics does."
    ),
    find=_find_growing,
    needs=TENSORS,
    worth_saying=0.02,
)

MEMORY_THAT_GROWS = Pattern(
    id="memory-that-grows",
    status=Status.MEMORY,
    title="Memory leak: memory grows with every iteration",
    advice=_DETACHED,
    find=_find_kept,
    needs=(*TENSORS, Needs.STACKS),
)

DEVICE_GROWTH = Pattern(
    id="device-memory-growth",
    status=Status.MEMORY,
    title="The GPU's memory pool keeps growing",
    advice=(
        "Start with the largest batch, so that later ones fit into the pool; set "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; remove torch.cuda.empty_cache()."
    ),
    find=_find_device_growth,
    needs=(Needs.DEVICE, Needs.MEMORY),
    worth_saying=0.005,
)
