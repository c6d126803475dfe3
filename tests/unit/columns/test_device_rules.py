"""Rules that device activity has to keep."""

from opscope.analysis.device_account import describe_devices
from opscope.columns.device_rules import check_device_rules
from support.build_trace import build_trace, kernel


def test_sound_work_keeps_all_rules():
    trace = build_trace(
        "a 0..100", gpu=[kernel("k", 10, 30, launch=0), kernel("l", 30, 50, launch=0)]
    )

    rules = check_device_rules(trace)

    assert rules.doubts == []
    assert rules.work == 2
    assert (rules.busy_ns, rules.wall_ns) == (40_000, 40_000)
    assert describe_devices(trace) == [
        "2 device activities, busy 100.0% of the time from first to last, consistent"
    ]


def test_overlap_on_a_stream_is_found_and_too_much_work_with_it():
    trace = build_trace(
        "a 0..10", gpu=[kernel("k", 10, 30, launch=0), kernel("l", 12, 32, launch=0)]
    )

    counts = [(doubt.what, doubt.count) for doubt in check_device_rules(trace).doubts]
    assert counts == [
        ("device activities overlap others on their stream", 1),
        ("streams are busy for longer than the elapsed time", 1),
    ]
    assert (
        "INCONSISTENT: 1 of 2 device activities overlap others on their stream, by up to"
        in (describe_devices(trace)[0])
    )


def test_what_may_overlap_does_not_break_the_rules():
    branches = [
        kernel("k", 10, 30, launch=0, graph_node=1),
        kernel("l", 12, 32, launch=0, graph_node=2),
    ]
    trace = build_trace(
        """
        cudaLaunchKernelExC 0..10
        cudaLaunchKernel    40..50
        cudaLaunchKernelExC 52..60
        """,
        gpu=[*branches, kernel("first", 50, 70, launch=1), kernel("dependent", 62, 80, launch=2)],
    )

    # Of 78 us in 70 only 20 us may not overlap, otherwise the stream would be too busy.
    assert check_device_rules(trace).doubts == []


def test_the_ledger_has_every_rule():
    trace = build_trace("a 50..100", gpu=[kernel("k", 40, 60, launch=0), kernel("l", 61, 62)])

    assert check_device_rules(trace).ledger == {
        "work checked": 2,
        "broken: begins before its launch": 1,
        "broken: overlaps others on its stream": 0,
        "broken: there twice": 0,
        "broken: streams busy for longer than passed": 0,
    }


def test_the_same_work_twice_is_found():
    work = kernel("k", 10, 30, launch=0)
    trace = build_trace("a 0..10", gpu=[work, work])

    assert check_device_rules(trace).ledger["broken: there twice"] == 1
