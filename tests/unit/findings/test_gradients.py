"""What gradients that nobody asks for cost, by the nodes that were made for them."""

from opscope.findings.find import find_findings
from support.build_trace import allocation, build_trace, span, tensor

NODE_NS = 2_500


def found_in(spans):
    trace = build_trace(spans, allocations=[allocation(1, 1, event=0)])
    return find_findings(trace)["gradients-in-inference"]


def saved_ns(nodes_each):
    """Of twenty operators, each with so many others in it that make a node."""
    weight = tensor(8, requires_grad=True)
    spans, number = [], 0
    for at in range(0, 2_000, 100):
        spans.append(span("aten::gru_cell", at, at + 90, inputs=[weight], sequence_number=number))
        for inner in range(nodes_each):
            spans.append(
                span("aten::mul", at + 1 + inner, at + 1.5 + inner, sequence_number=number)
            )
            number += 1
    return found_in(spans).saved_ns


def test_every_node_counts_and_not_every_operator_called():
    assert saved_ns(10) == 10 * saved_ns(1) == 20 * 10 * NODE_NS


def test_operators_that_look_at_the_same_number_made_one_node():
    weight = tensor(8, requires_grad=True)
    spans = [
        span("aten::linear", at, at + 90, inputs=[weight], sequence_number=at // 100)
        for at in range(0, 2_000, 100)
    ]
    inner = [span("aten::t", one.start + 1, one.start + 2, sequence_number=one.sequence_number)
             for one in spans]  # fmt: skip
    both = sorted([*spans, *inner], key=lambda one: one.start)
    found = found_in(both)
    assert (found.occurrences, found.saved_ns) == (20, 20 * NODE_NS)
