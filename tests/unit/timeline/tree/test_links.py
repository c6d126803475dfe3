"""Forward to backward arrows: torch's rule on hand-made sequence numbers."""

from opscope.columns.schema import RecordScope
from opscope.timeline.tree.links import forward_backward_links
from support.build_trace import build_trace, span

BACKWARD = {"scope": RecordScope.BACKWARD_FUNCTION, "forward_thread": 1}


def pairs(trace):
    links = forward_backward_links(trace)
    return list(zip(links.source.tolist(), links.target.tolist(), strict=True))


def test_the_forward_is_looked_for_on_the_thread_the_backward_names():
    trace = build_trace([
        span("aten::mul", 0, 10, "main", sequence_number=0),
        span("aten::add", 1, 10, "other", sequence_number=0),
        span("MulBackward0", 20, 25, "autograd", sequence_number=0, **BACKWARD),
        span("AddBackward0", 30, 35, "autograd", sequence_number=0, scope=1, forward_thread=2),
    ])  # fmt: skip

    assert pairs(trace) == [(0, 2), (1, 3)]


def test_links_in_the_trace_are_taken_as_they_are():
    trace = build_trace(
        [("a", 0, 1), ("b", 2, 3), ("c", 4, 5), ("d", 6, 7)], links=[(1, 3), (0, 2)]
    )

    assert pairs(trace) == [(0, 2), (1, 3)]
