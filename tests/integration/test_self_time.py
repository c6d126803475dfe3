"""Each instant of a thread belongs to one span, in every view, however spans overlap."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opscope
from opscope.analysis.account.find import find_account
from opscope.analysis.top_operators import find_top_operators
from opscope.analysis.torch_listing.averages import key_averages
from opscope.report.page import report_html
from opscope.timeline.listing import OwnListing, TorchListing
from opscope.timeline.period import Which, period_of
from opscope.timeline.tree.line_nesting import line_nesting, own_times
from support.plain_own_times import covered_ns, plain_own_times
from support.read_report import own_times_of_the_page, read_report

# Nanoseconds; few distinct ones, so that ties, empty spans and overruns of 1 ns are frequent.
EDGE = st.sampled_from([0, 1, 2, 999, 1000, 1001, 2000, 5000, 5001, 9999, 10_000])
SPANS = st.lists(
    st.tuples(
        st.integers(0, 2),  # thread
        st.tuples(st.integers(0, 9), EDGE),  # begins
        EDGE,  # lasts
        st.sampled_from(["aten::mm", "aten::add", "step"]),
        st.sampled_from(["cpu_op", "user_annotation", "python_function"]),
        st.booleans(),  # one event, or a beginning and an end
    ),
    min_size=1,
    max_size=25,
)


def events_of(spans):
    events = []
    for thread, (tens, rest), took, name, category, is_whole in spans:
        begin = 10_000 * tens + rest
        one = {"cat": category, "name": name, "pid": 1, "tid": thread}
        if is_whole:
            events.append({**one, "ph": "X", "ts": begin / 1000, "dur": took / 1000})
        else:
            events.append({**one, "ph": "B", "ts": begin / 1000})
            events.append({**one, "ph": "E", "ts": (begin + took) / 1000})
    return sorted(events, key=lambda event: event["ts"])


def by_name(trace, own):
    sums = {}
    for name, one in zip(OwnListing(trace).label.tolist(), own.tolist(), strict=True):
        sums[name] = sums.get(name, 0) + one
    texts = OwnListing(trace).texts
    return {texts[name]: one for name, one in sums.items() if one}


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(SPANS)
def test_all_views_cut_the_time_of_threads_alike(tmp_path, spans):
    path = tmp_path / "random.json"
    path.write_text(json.dumps({"traceEvents": events_of(spans)}))
    trace = opscope.load(path)
    own = own_times(trace)
    assert (own >= 0).all()
    assert own.tolist() == plain_own_times(trace).tolist()
    thread = line_nesting(trace).thread
    threads = len(trace.table("threads"))
    assert [own[thread == row].sum() for row in range(threads)] == covered_ns(trace)
    if not trace.has_times:
        return
    names = by_name(trace, own)

    period = period_of(trace, Which.ALL)
    top = find_top_operators(period, sort_by="self_cpu_time_total", row_limit=-1)
    rows = [*top.rows, *top.waiting]
    shown = {}  # an annotation and an operator of one name are two rows
    for row in rows:
        shown[row["name"]] = shown.get(row["name"], 0) + row["cpu_self_ns"]
    assert {name: one for name, one in shown.items() if one} == names
    assert sum(row["calls"] for row in rows) == OwnListing(trace).listed.sum()

    listing = TorchListing(trace)
    averages = key_averages(trace, listing=listing)
    # As in torch, a call folded into one of its name that it outlives has no time beyond that.
    end = trace.events["start_ns"] + trace.events["duration_ns"]
    folded = np.flatnonzero(~listing.listed)
    beyond = np.maximum(end[folded] - end[listing.parent[folded]], 0).sum()
    assert int(averages.quantities["cpu_self_ns"].sum()) == own.sum() - beyond
    assert (listing.self_ns >= 0).all()

    account = find_account(trace, Which.ALL)
    assert account.time_ns.sum() == account.wall_ns * threads

    page = read_report(report_html(trace, period=Which.ALL))
    shown = own_times_of_the_page(page)
    assert {name: one for name, one in shown.items() if one} == names
