"""Device time goes to the event that launched the work, and up to what it ran in."""

from opscope.timeline.listing import (
    ANNOTATION,
    SYNCHRONISATION,
    TorchListing,
    listed_gpu_rows,
    measure_device_time,
)
from support.build_trace import build_trace, kernel


def test_work_counts_for_its_launch_and_everything_around_it():
    trace = build_trace(
        """
        aten::linear     0..100
          aten::addmm   10..50
          aten::relu    60..90
        """,
        gpu=[kernel("gemm", 200, 230, launch=1), kernel("relu", 230, 235, launch=2)],
    )

    time = measure_device_time(TorchListing(trace))

    assert (time.total_ns // 1000).tolist() == [35, 30, 5]
    assert (time.self_ns // 1000).tolist() == [0, 30, 5]
    assert time.launched.tolist() == [1, 2]


def test_waiting_and_annotations_are_no_work():
    trace = build_trace(
        "a 0..100",
        gpu=[
            kernel("wait", 0, 50, launch=0, kind=SYNCHRONISATION),
            kernel("range", 0, 50, launch=0, kind=ANNOTATION),
            kernel("unlaunched", 60, 70),
        ],
    )
    listing = TorchListing(trace)

    assert measure_device_time(listing).total_ns.tolist() == [0]
    assert listed_gpu_rows(listing).tolist() == [1, 2]
