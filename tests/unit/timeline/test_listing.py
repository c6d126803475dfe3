"""Which events are listed, and which are whose children, as torch.profiler decides it."""

import pytest

from opscope.columns.schema import AllocationAction, EventKind
from opscope.timeline.listing import TorchListing, averaged_name
from support.build_trace import allocation, build_trace, span


def listed(trace):
    listing = TorchListing(trace)
    return [trace.event_name(int(row)) for row in listing.rows]


def test_an_event_alone_in_one_of_the_same_name_is_folded_into_it():
    trace = build_trace("""
        aten::sum             0..100
          aten::sum           1..90
            aten::as_strided  2..10
            aten::fill_      20..30
    """)
    listing = TorchListing(trace)

    assert listing.rows.tolist() == [0, 2, 3]
    assert listing.parent.tolist() == [-1, 0, 0, 0]
    assert (listing.self_ns[[0, 2, 3]] // 1000).tolist() == [82, 8, 10]


def test_a_recursion_of_one_name_is_folded_into_one_event():
    trace = build_trace("""
        f          0..100
          f        1..90
            f      2..80
              g    3..10
    """)

    assert TorchListing(trace).rows.tolist() == [0, 3]
    assert TorchListing(trace).parent.tolist()[3] == 0


def test_an_event_with_siblings_is_kept_in_one_of_the_same_name():
    trace = build_trace("""
        aten::arange          0..100
          aten::empty         1..10
          aten::arange       20..90
    """)

    assert TorchListing(trace).rows.tolist() == [0, 1, 2]


def test_bookkeeping_is_left_out_and_its_children_move_up():
    trace = build_trace("""
        a                                           0..100
          profiler::_record_function_enter_new      1..50
            aten::empty                             2..40
        aten::is_leaf                             200..210
    """)
    listing = TorchListing(trace)

    assert listed(trace) == ["a", "aten::empty"]
    assert listing.parent.tolist()[2] == 0
    assert (listing.self_ns[0] // 1000) == 62


def test_garbage_collections_are_part_of_what_they_interrupt():
    trace = build_trace([span("a", 0, 100), span("gc", 10, 30, kind=EventKind.GC_PAUSE)])

    assert listed(trace) == ["a"]
    assert TorchListing(trace).self_ns.tolist()[0] == 100_000


def test_asynchronous_events_are_listed_without_relatives():
    trace = build_trace([
        span("a", 0, 100),
        span("async", 10, 300, parent=0, is_async=True),
        span("inside", 20, 30, parent=1),
    ])  # fmt: skip
    listing = TorchListing(trace)

    assert listing.rows.tolist() == [0, 1, 2]
    assert listing.listed_parent.tolist() == [-1, -1, 0]
    assert (listing.self_ns // 1000).tolist() == [90, 0, 10]


def test_steps_are_grouped_but_keep_their_own_names():
    trace = build_trace([("ProfilerStep#1", 0, 10), ("ProfilerStep#2", 10, 20), ("f", 20, 30)])
    listing = TorchListing(trace)

    assert [listing.texts[i] for i in listing.label] == ["ProfilerStep#1", "ProfilerStep#2", "f"]
    grouped = [listing.group_texts[i] for i in listing.group_label]
    assert grouped == ["ProfilerStep*", "ProfilerStep*", "f"]


@pytest.mark.parametrize(
    ("name", "averaged"),
    [("ProfilerStep#12", "ProfilerStep*"), ("ProfilerStep", "ProfilerStep"), ("f", "f")],
)
def test_averaged_name(name, averaged):
    assert averaged_name(name) == averaged


def test_loose_memory_is_what_no_listed_event_contains():
    trace = build_trace(
        [
            span("a", 0, 100),
            span("aten::is_leaf", 200, 300),
            span("async", 400, 500, is_async=True),
        ],
        allocations=[
            allocation(50, 10),
            allocation(150, 20),
            allocation(250, 30),
            allocation(450, 40, event=2),
            allocation(60, 50, action=AllocationAction.OUT_OF_MEMORY),
        ],
    )

    assert TorchListing(trace).loose_allocations.tolist() == [1, 2, 4]


def test_nothing_recorded():
    listing = TorchListing(build_trace([]))

    assert listing.rows.tolist() == [] and listing.self_ns.tolist() == []
