"""Annotations opened in a Python call belong to what contains them in time."""

import numpy as np

from opscope.analysis.annotations_by_time import nest_annotations
from opscope.analysis.listing import Listing
from opscope.analysis.memory_use import CPU_TYPES, measure_memory
from opscope.trace.schema import EventKind
from opscope.tree.event_tree import event_tree
from support.build_trace import allocation, build_trace, span

CALL = {"kind": EventKind.PYTHON_CALL}
OUTLIVING = {"kind": EventKind.ANNOTATION, "is_async": True}


def nested(trace):
    parent, is_async = nest_annotations(trace, event_tree(trace))
    return parent.tolist(), is_async.tolist()


def test_it_moves_to_its_container_and_takes_in_what_ran_during_it():
    # GIVEN with record_function("outer"): a; with record_function("inner"): b; c
    trace = build_trace([
        span("main", 0, 1000, parent=-1, **CALL),
        span("__enter__", 10, 20, parent=0, **CALL),
        span("_enter_new", 12, 18, parent=1, kind=EventKind.C_CALL),
        span("outer", 15, 500, parent=2, **OUTLIVING),
        span("a", 30, 40, parent=0),
        span("inside a", 32, 38, parent=4),
        span("__enter__", 100, 120, parent=0, **CALL),
        span("inner", 110, 300, parent=6, **OUTLIVING),
        span("b", 150, 160, parent=0),
        span("__exit__", 290, 310, parent=0, **CALL),
        span("c", 400, 410, parent=0),
        span("__exit__", 490, 520, parent=0, **CALL),
        span("d", 600, 610, parent=0),
    ])  # fmt: skip

    parent, is_async = nested(trace)

    #                 main e  n  out a  ia e  in b  ex c  ex d
    assert parent == [-1, 0, 1, 0, 3, 4, 3, 3, 7, 3, 3, 0, 0]
    assert not any(is_async)


def test_at_top_level_every_thread_is_by_itself():
    trace = build_trace([
        span("__enter__", 0, 10, **CALL),
        span("outer", 5, 100, parent=0, **OUTLIVING),
        span("a", 20, 30, parent=-1),
        span("elsewhere", 25, 28, "worker", parent=-1),
        span("b", 200, 210, parent=-1),
    ])  # fmt: skip

    assert nested(trace)[0] == [-1, -1, 1, -1, -1]


def test_what_outlives_anything_else_stays_asynchronous():
    trace = build_trace([
        span("f", 0, 100),
        span("future", 10, 300, parent=0, **OUTLIVING),
        span("g", 150, 200, parent=-1),
    ])  # fmt: skip

    assert nested(trace) == ([-1, 0, -1], [False, True, False])


def test_without_any_the_recorded_parents_are_used_as_they_are():
    trace = build_trace("a 0..10")

    assert nest_annotations(trace, event_tree(trace))[0] is event_tree(trace).parent


def test_the_listing_and_memory_follow():
    trace = build_trace(
        [
            span("main", 0, 1000, parent=-1, **CALL),
            span("__enter__", 10, 20, parent=0, **CALL),
            span("outer", 15, 500, parent=1, **OUTLIVING),
            span("a", 30, 40, parent=0),
        ],
        allocations=[
            allocation(12, 1, event=1),
            allocation(35, 64, event=3),
            allocation(50, 8, event=0),  # by main itself, while the annotation was open
            allocation(600, 2, event=0),
        ],
    )
    listing = Listing(trace)

    assert listing.listed_parent.tolist() == [-1, 0, 0, 2]
    assert (listing.self_ns // 1000).tolist() == [505, 10, 475, 10]
    memory = measure_memory(listing, CPU_TYPES)
    assert memory.total_bytes.tolist() == [75, 1, 72, 64]
    assert memory.self_bytes.tolist() == [2, 1, 8, 64]
    assert np.array_equal(listing.tree.parent, [-1, 0, 1, 0]), "as recorded"
