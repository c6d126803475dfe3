"""Modules, parts of a step and lines of events the plain way: with sorts, and columns of NumPy.

What native code makes of a trace is compared with this.
"""

from __future__ import annotations

import numpy as np

from opscope.columns.schema import EventKind, RecordScope
from opscope.timeline.listing import HIDDEN_NAMES
from opscope.timeline.phases import _PREFIXES, NO_PHASE, Phase
from opscope.timeline.tree.event_tree import event_tree, nearest_ancestor
from opscope.timeline.tree.links import forward_backward_links, thread_numbers

NONE = -1
_ENGINE = "autograd::engine::evaluate_function: "
_STORES = _ENGINE + "torch::autograd::AccumulateGrad"


def plain_phases(trace):
    """Phase of every event, where one is entered, and that of what is around."""
    own = _own_phase(trace)
    parent = event_tree(trace).parent
    marked = own >= 0
    around = nearest_ancestor(parent, marked)
    inherited = np.where(around >= 0, own[around], _phase_by_time(trace, own))
    phase = np.where(marked, own, inherited)
    free = (trace.events["kind"] == EventKind.OPERATOR) & (phase < 0)
    phase[free] = Phase.FORWARD
    enters = marked & (inherited != own)
    enters |= free & (nearest_ancestor(parent, free) < 0)
    of_parent = np.where(parent >= 0, phase[parent], NO_PHASE) if len(parent) else phase
    around_it = np.where(of_parent >= 0, of_parent, inherited)
    return phase, enters, around_it


def _own_phase(trace):
    """What events say of themselves, one after the other."""
    events, own = trace.events, np.full(len(trace.events), NO_PHASE, dtype=np.int8)
    for row, name in enumerate(events["name"].tolist()):
        for prefix, phase in _PREFIXES:
            if trace.names[name].startswith(prefix):
                own[row] = phase
    own[events["scope"] == RecordScope.BACKWARD_FUNCTION] = Phase.BACKWARD
    own[events["kind"] == EventKind.OPTIMIZER_CALL] = Phase.OPTIMIZER
    own[events["kind"] == EventKind.GC_PAUSE] = Phase.GARBAGE_COLLECTION
    return own


def _phase_by_time(trace, own):
    """The phase of the marked span that was open on its thread when each event began, if any."""
    thread, start = trace.events["thread"], event_tree(trace).start_ns
    end = start + event_tree(trace).duration_ns
    result = np.full(len(own), NO_PHASE, dtype=np.int8)
    marks = np.flatnonzero((own >= 0) & (own != Phase.GARBAGE_COLLECTION))
    for number in np.unique(thread[marks]):
        spans = marks[thread[marks] == number]
        spans = spans[np.argsort(start[spans], kind="stable")]
        reached = np.maximum.accumulate(end[spans])
        spans = spans[np.append(True, start[spans][1:] >= reached[:-1])]  # the outermost ones
        rows = np.flatnonzero(thread == number)
        latest = np.searchsorted(start[spans], start[rows], side="right") - 1
        inside = (latest >= 0) & (start[rows] < end[spans[latest]]) & (rows != spans[latest])
        result[rows[inside]] = own[spans[latest[inside]]]
    return result


def plain_modules(trace):
    """The module call of every event, and whether it is of that through the backward pass."""
    parent = event_tree(trace).parent
    is_module = trace.events["kind"] == EventKind.MODULE_CALL
    maker = _makers(trace)
    _add_stores(trace, maker)
    is_made = maker >= 0
    # The closest span, itself included, that says which module an event is for.
    rows = np.arange(len(parent))
    decisive = is_module | is_made
    closest = np.where(decisive, rows, nearest_ancestor(parent, decisive)).astype(np.int64)
    own = np.where(is_module, rows, NONE)
    call = _follow(closest, own, maker)
    is_backward = (closest >= 0) & is_made[closest] & (call >= 0)
    around = nearest_ancestor(parent, is_module).astype(np.int64)
    # Where no span tells the module, the module call around the event is taken.
    call = np.where(call >= 0, call, np.where(is_module, own, around))
    return call, is_backward


def _follow(closest, call, maker):
    """The module call of every event, from its deciding span and from span to maker to span.

    Gradients of gradients go across more than once. Where a maker stands in what it made, as in a
    damaged trace, that goes round and round: who has met as many spans as there are has no call.
    """
    result = np.where(closest >= 0, call[closest], NONE)
    pending = np.flatnonzero((closest >= 0) & (result < 0))
    at = closest[pending]
    for _ in range(len(closest)):
        at = closest[maker[at]]
        known = at >= 0
        pending, at = pending[known], at[known]
        result[pending] = call[at]
        unknown = result[pending] < 0
        pending, at = pending[unknown], at[unknown]
    return result


def _makers(trace):
    """The forward operator behind every span of the backward pass, else -1. Shape (events,).

    Of operators that share a sequence number the last one to start before made the node; a graph
    that is kept runs more than once. Arrows given in the trace stand in where there are no numbers.
    """
    events = trace.events
    maker = np.full(len(events), NONE, dtype=np.int64)
    if len(trace.table("links")):
        links = forward_backward_links(trace)
        earlier = links.source < links.target
        maker[links.target[earlier]] = links.source[earlier]
    numbered = np.flatnonzero(events["sequence_number"] >= 0)
    is_made = events["forward_thread"][numbered] > 0
    makes = (events["scope"][numbered] == RecordScope.FUNCTION) & ~is_made
    makes &= events["kind"][numbered] == EventKind.OPERATOR
    rows, is_made = numbered[makes | is_made], is_made[makes | is_made]
    thread = np.where(is_made, events["forward_thread"][rows], thread_numbers(trace)[rows])
    number = events["sequence_number"][rows]
    order = np.lexsort((rows, number, thread))
    rows, is_made, thread, number = rows[order], is_made[order], thread[order], number[order]
    starts = np.ones(len(rows), dtype=np.bool_)
    starts[1:] = (np.diff(thread) != 0) | (np.diff(number) != 0)
    place = np.arange(len(rows))
    group = np.maximum.accumulate(np.where(starts, place, 0))
    last = np.maximum.accumulate(np.where(is_made, NONE, place))
    found = is_made & (last >= group)
    maker[rows[found]] = rows[last[found]]
    return maker


def _add_stores(trace, maker):
    """Give spans that store a gradient the maker of the span just before, in place."""
    events, names = trace.events, trace.names
    stores = events["name"] == names.find(_STORES)
    if names.find(_STORES) < 0:
        return
    used = np.unique(events["name"][maker >= 0])
    engine = [name for name in used.tolist() if names[name].startswith(_ENGINE)]
    computes = np.isin(events["name"], engine) & (maker >= 0) & ~stores
    parent, thread = events["parent"], events["thread"]
    beside = np.isin(parent, np.unique(parent[stores])) & (events["kind"] != EventKind.GC_PAUSE)
    rows = np.flatnonzero(beside)
    rows = rows[np.lexsort((rows, thread[rows], parent[rows]))]
    breaks = np.ones(len(rows), dtype=np.bool_)
    breaks[1:] = (np.diff(thread[rows]) != 0) | (np.diff(parent[rows]) != 0)
    breaks |= ~computes[rows] & ~stores[rows]
    place = np.arange(len(rows))
    last = np.maximum.accumulate(np.where(computes[rows], place, NONE))
    broken = np.maximum.accumulate(np.where(breaks & ~computes[rows], place, NONE))
    found = stores[rows] & (last >= 0) & (last > broken)
    maker[rows[found]] = maker[rows[last[found]]]


def plain_hidden(listing):
    """Which events torch does not list."""
    texts = np.array([text in HIDDEN_NAMES for text in listing.texts], dtype=np.bool_)
    return texts[listing.label] | (listing.trace.events["kind"] == EventKind.GC_PAUSE)


def plain_listing(trace, group_label, hidden):
    """What is listed, what of it nests, and the closest of that around each."""
    shown, nested = ~hidden, ~hidden & ~trace.events["is_async"]
    parent = nearest_ancestor(event_tree(trace).parent, nested)
    folded = _folded(parent, group_label, nested)
    return shown & ~folded, nested & ~folded, nearest_ancestor(parent, nested & ~folded)


def _folded(parent, label, nested):
    child = nested & (parent >= 0)
    folded = child & (label[parent] == label) if len(parent) else child
    around = np.zeros(len(parent), dtype=np.bool_)
    around[parent[folded]] = True
    rows = np.flatnonzero(child & around[parent])
    _, family, children = np.unique(parent[rows], return_inverse=True, return_counts=True)
    folded[rows[children[family] > 1]] = False
    return folded


def plain_sources(listing, makers):
    """The event whose stack each event has: itself, or its forward operator; -1 none.

    Of those that share a sequence number the first event; with ``makers`` the last operator, or
    what that runs in with the same number.
    """
    itself = np.arange(len(listing.label))
    is_backward = listing.trace.events["scope"] == RecordScope.BACKWARD_FUNCTION
    is_backward = is_backward & listing.nested
    if not is_backward.any():
        return itself
    around = np.where(is_backward, itself, nearest_ancestor(listing.tree.parent, is_backward))
    inside = around >= 0
    candidate = listing.listed & ~inside
    if makers:
        events = listing.trace.events
        candidate &= (events["kind"] == EventKind.OPERATOR) & (events["forward_thread"] <= 0)
    forward = _forward_of(listing, np.flatnonzero(is_backward), candidate, makers)
    if makers:
        forward = np.array([_outermost(listing.trace, row) for row in forward.tolist()], np.int64)
    return np.where(inside, forward[around], itself)


def _outermost(trace, row):
    """Of an operator the outermost around it that all have its sequence number."""
    events = trace.events
    while row >= 0:
        above = int(events["parent"][row])
        if above < 0 or events["sequence_number"][above] != events["sequence_number"][row]:
            break
        if events["kind"][above] != EventKind.OPERATOR or events["forward_thread"][above] > 0:
            break
        row = above
    return row


def _forward_of(listing, backward, candidate, last):
    """For each backward event the first candidate with its sequence number and forward thread, or
    the last.

    Returns an array over all events, -1 where nothing was found.
    """
    events = listing.trace.events
    number, threads = events["sequence_number"], thread_numbers(listing.trace)
    forward = np.flatnonzero(candidate & (number >= 0))
    rows = np.concatenate([forward, backward])
    thread = np.concatenate([threads[forward], events["forward_thread"][backward]])
    is_target = np.arange(len(rows)) >= len(forward)
    order = np.lexsort((-rows if last else rows, is_target, number[rows], thread))
    new_group = np.ones(len(rows), dtype=np.bool_)
    new_group[1:] = (np.diff(thread[order]) != 0) | (np.diff(number[rows][order]) != 0)
    first = order[np.flatnonzero(new_group)[np.cumsum(new_group) - 1]]
    found = is_target[order] & ~is_target[first]
    result = np.full(len(candidate), -1, dtype=np.int64)
    result[rows[order[found]]] = rows[first[found]]
    return result


def plain_around(sites):
    """The innermost event around each, or itself, that says where in the program it is."""
    decisive = sites.called_here | sites.defined_here
    itself = np.arange(len(decisive))
    nearest = np.where(
        decisive, itself, nearest_ancestor(sites._listing.tree.parent, decisive)
    ).astype(np.int64)
    forward = np.where(sites.source >= 0, nearest[sites.source], -1)
    return np.where(forward >= 0, forward, nearest)


def plain_lines(sites, trace):
    """Frame and line of each event, -1 for none."""
    site = sites.around
    known = site >= 0
    precise = known & sites.called_here[site]
    # What runs directly in a function of the program is not at the line that called it.
    own_body = sites.defined_here[site] & (site != np.arange(len(site)))
    precise &= ~own_body
    first_call = np.where(own_body, _first_calls(sites), -1)
    site = np.where(first_call >= 0, first_call, site)
    precise |= first_call >= 0
    frame = np.where(precise, sites.caller[site], sites.frame[site])
    frames = trace.table("frames")
    first = frames["line"][frame] if len(frames) else np.full(len(site), -1)
    line = np.where(precise, sites.caller_line[site], first)
    return np.where(known, frame, -1), np.where(known, line, -1).astype(np.int64)


def _first_calls(sites):
    parent = sites._listing.tree.parent
    first = np.full(len(parent), len(parent), dtype=np.int64)
    function = nearest_ancestor(parent, sites.frame >= 0).astype(np.int64)
    calls = np.flatnonzero(sites.called_here & (sites.frame[function] == sites.caller))
    above = parent[calls].astype(np.int64)
    while len(calls):
        between = (above >= 0) & (above != function[calls]) & ~sites.called_here[above]
        calls, above = calls[between], above[between]
        np.minimum.at(first, above, calls)
        above = parent[above].astype(np.int64)
    return np.where(first < len(parent), first, -1)


def plain_widest_gaps(parent, group, line, start_ns, took_ns):
    """Of every group of calls the two lines between which most of their time passes, and that."""
    times = {}
    for call in np.flatnonzero(group >= 0).tolist():
        before, reached = NONE, int(start_ns[call])
        for row in np.flatnonzero(parent == call).tolist():
            key = (int(group[call]), before, int(line[row]))
            times[key] = times.get(key, 0) + max(int(start_ns[row]) - reached, 0)
            before, reached = int(line[row]), int(start_ns[row] + took_ns[row])
        key = (int(group[call]), before, NONE)
        times[key] = times.get(key, 0) + max(int(start_ns[call] + took_ns[call]) - reached, 0)
    found = {}
    for key, time_ns in sorted(times.items()):
        if key[0] not in found or time_ns > found[key[0]][-1]:
            found[key[0]] = (*key[1:], time_ns)
    return found
