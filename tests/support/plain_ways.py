"""Native passes over a trace compared with plain ways to the same: every number has to be equal."""

from __future__ import annotations

import numpy as np

from opscope import _native
from opscope.analysis.account.find import divide, main_time
from opscope.analysis.sites import Sites
from opscope.columns.causes import Cause
from opscope.columns.schema import AllocationAction, EventKind
from opscope.findings.subject import Subject
from opscope.jobs.rollup.operators import line_columns, operator_columns
from opscope.jobs.rollup.places import ProgramPlace
from opscope.timeline.listing import TorchListing
from opscope.timeline.module_attribution import attribute_to_modules
from opscope.timeline.period import Which, period_of
from opscope.timeline.phases import PHASE_NAMES, Phase, find_phases
from opscope.timeline.stacks import Stacks, forward_source
from opscope.timeline.steps import program_steps
from opscope.timeline.tree.event_tree import event_tree
from opscope.timeline.tree.line_nesting import own_times
from support.plain_account import plain_sums
from support.plain_attribution import (
    plain_around,
    plain_hidden,
    plain_lines,
    plain_listing,
    plain_modules,
    plain_phases,
    plain_sources,
    plain_widest_gaps,
)
from support.plain_own_times import plain_own_times
from support.rolled_up import places_of


def assert_as_plain(trace, memory_recorded=False):
    """Account, attribution and operators are those of the plain ways."""
    assert_account_as_plain(trace)
    assert_attribution_as_plain(trace)
    assert_own_times_as_plain(trace)
    assert_operators_as_plain(trace, memory_recorded)
    assert_places_as_plain(trace)
    assert_lines_as_plain(trace)


def assert_account_as_plain(trace):
    """Sums of every thread, and pieces of the main one, of all periods that there are."""
    for which in (Which.ALL, Which.STEADY):
        period = period_of(trace, which)
        sums, main, pieces = plain_sums(trace, period)
        found = divide(trace, period)
        assert len(found.sums) == len(sums) and found.main == main
        for (time, error), (plain_time, plain_error) in zip(found.sums, sums, strict=True):
            np.testing.assert_array_equal(time, plain_time)
            np.testing.assert_array_equal(error, plain_error)
        own = main_time(trace, which)
        columns = (own.step, own.event, own.cause, own.time_ns, own.start_ns, own.end_ns)
        for column, plain in zip(columns, pieces, strict=True):
            np.testing.assert_array_equal(column, plain)


def assert_attribution_as_plain(trace):
    """Phases, modules, what is listed, stacks and lines."""
    phases = find_phases(trace)
    found = (phases.phase, phases.outermost, phases.around)
    for column, plain in zip(found, plain_phases(trace), strict=True):
        np.testing.assert_array_equal(column, plain)
    modules = attribute_to_modules(trace)
    call, is_backward = plain_modules(trace)
    np.testing.assert_array_equal(modules.call, call)
    np.testing.assert_array_equal(modules.is_backward, is_backward)
    listing = TorchListing(trace)
    listed = (listing.listed, listing.nested, listing.parent)
    plain_listed = plain_listing(trace, listing.group_label, plain_hidden(listing))
    for column, plain in zip(listed, plain_listed, strict=True):
        np.testing.assert_array_equal(column, plain)
    np.testing.assert_array_equal(forward_source(listing), plain_sources(listing, makers=True))
    stacks, plain = Stacks(listing), plain_sources(listing, makers=False)
    np.testing.assert_array_equal(stacks.innermost, np.append(stacks.caller, -1)[plain])
    sites = Sites(listing)
    np.testing.assert_array_equal(sites.around, plain_around(sites))
    for column, plain in zip(sites.at, plain_lines(sites, trace), strict=True):
        np.testing.assert_array_equal(column, plain)
    is_call, group = sites.defined_here, np.maximum(sites.frame, 0).astype(np.int32)
    tree = event_tree(trace)
    calls = (sites.caller_line, tree.start_ns, tree.duration_ns)
    gaps = _native.widest_gaps(tree.parent, is_call, group, len(trace.table("frames")) + 1, *calls)
    widest = {of: tuple(rest) for of, *rest in zip(*(one.tolist() for one in gaps), strict=True)}
    assert widest == plain_widest_gaps(tree.parent, np.where(is_call, group, -1), *calls)


def assert_own_times_as_plain(trace):
    """Each instant of a thread is of the span that began last of those that are open then."""
    np.testing.assert_array_equal(own_times(trace), plain_own_times(trace))


def assert_operators_as_plain(trace, memory_recorded):
    """The rows of operators, added up one event after the other."""
    found = operator_columns(trace)
    host = [row for row, device in enumerate(found["device"]) if device == "cpu"]
    plain = plain_operators(trace, memory_recorded)
    keys = [(found["name"][row], found["phase"][row], found["module"][row]) for row in host]
    assert sorted(keys) == sorted(plain)
    for row, key in zip(host, keys, strict=True):
        for name, value in plain[key].items():
            assert found[name][row] == value, (key, name)


def assert_places_as_plain(trace):
    """Where the time of steps passed, one piece of it after the other."""
    subject, own, plain = Subject(trace), main_time(trace, Which.ALL), {}
    pieces = (own.step, own.event, own.cause, own.time_ns)
    for step, event, cause, time_ns in zip(*(one.tolist() for one in pieces), strict=True):
        if step >= 0:
            key = (Cause(cause), plain_place(subject, event))
            plain[key] = plain.get(key, 0) + time_ns
    found = places_of(trace)
    assert found.steps == len(own.steps)
    assert plain == {
        (cause, place): time_ns
        for cause, of_cause in found.time_ns.items()
        for place, time_ns in of_cause.items()
    }


def assert_lines_as_plain(trace):
    """The rows of lines, added up one event after the other."""
    frames, names, plain = trace.table("frames"), trace.names, {}
    at = zip(*(column.tolist() for column in Sites(TorchListing(trace)).at), strict=True)
    for (frame, line), own_ns in zip(at, own_times(trace).tolist(), strict=True):
        if frame < 0:
            continue
        key = names[frames["file"][frame]], line, names[frames["function"][frame]]
        count, self_ns = plain.get(key, (0, 0))
        plain[key] = count + 1, self_ns + own_ns
    found = line_columns(Subject(trace))
    keys = zip(found["file"], found["line"].tolist(), found["function"], strict=True)
    amounts = zip(found["count"].tolist(), found["self_ns"].tolist(), strict=True)
    assert dict(zip(keys, amounts, strict=True)) == plain


def plain_place(subject, event):
    """The place of one event; -1 is none."""
    trace, sites = subject.recorded, subject.sites
    if event < 0:
        return ProgramPlace()
    frame, line = (int(column[event]) for column in sites.at)
    if sites.defined_here[event]:
        frame = int(sites.frame[event])
        line = int(trace.table("frames")["line"][frame])
    phase, modules = int(find_phases(trace).phase[event]), attribute_to_modules(trace)
    if phase < 0 and modules.path[event] >= 0:
        phase = Phase.FORWARD
    operator, row = -1, event
    while row >= 0:
        operator = row if trace.events["kind"][row] == EventKind.OPERATOR else operator
        row = int(subject.parent[row])
    name = int(trace.events["name"][operator]) if operator >= 0 else -1
    frames, names = trace.table("frames"), trace.names
    return ProgramPlace(
        phase=PHASE_NAMES[phase] if phase >= 0 else "",
        file=names[frames["file"][frame]] if frame >= 0 else "",
        line=line if frame >= 0 else -1,
        function=names[frames["function"][frame]] if frame >= 0 else "",
        module=modules.name(event),
        operator=names[name] if name >= 0 else "",
    )


def plain_operators(trace, memory_recorded):
    """What ``rollup_operators`` and its details have, by name, phase and module.

    Names are taken to be different.
    """
    events, tree, own = trace.events, event_tree(trace), own_times(trace)
    phases, modules, steps = (
        find_phases(trace),
        attribute_to_modules(trace),
        program_steps(trace)[0],
    )
    start, end = tree.start_ns, tree.start_ns + tree.duration_ns
    allocated = np.zeros(len(start), dtype=np.int64)
    table = trace.table("allocations")
    there = (table["action"] == AllocationAction.ALLOCATE) & (table["event"] >= 0)
    np.add.at(allocated, table["event"][there], table["size_bytes"][there])
    rows_of: dict[tuple[str, str, str], list[int]] = {}
    for row in np.argsort(start, kind="stable").tolist():
        if events["kind"][row] == EventKind.OPERATOR:
            phase = PHASE_NAMES[phases.phase[row]] if phases.phase[row] >= 0 else ""
            name = trace.names[events["name"][row]] if events["name"][row] >= 0 else trace.names[-1]
            rows_of.setdefault((name, phase, modules.name(row)), []).append(row)
    begins = np.sort(steps.start_ns, kind="stable")
    ends = steps.end_ns[np.argsort(steps.start_ns, kind="stable")]
    found = {}
    for key, rows in rows_of.items():
        reached: dict[int, int] = {}
        by_step: dict[int, int] = {}
        total = 0
        for row in rows:
            thread = int(events["thread"][row])
            if start[row] >= reached.get(thread, start[row]):
                total += int(events["duration_ns"][row])
            reached[thread] = max(reached.get(thread, int(end[row])), int(end[row]))
            step = int(np.searchsorted(begins, start[row], side="right")) - 1
            if step >= 0 and start[row] < ends[step]:
                by_step[step] = by_step.get(step, 0) + int(own[row])
        times = sorted(by_step.values())
        found[key] = {
            "count": len(rows),
            "total_ns": total,
            "self_ns": int(own[rows].sum()),
            "steps": len(times),
            "step_min_ns": times[0] if times else -1,
            "step_median_ns": times[(len(times) - 1) // 2] if times else -1,
            "step_max_ns": times[-1] if times else -1,
            "allocated_bytes": int(allocated[rows].sum()) if memory_recorded else -1,
        }
    return found
