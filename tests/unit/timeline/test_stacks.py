"""Stacks of events: frames around them, and those of the forward for backward operators."""

from opscope.columns.schema import EventKind, RecordScope
from opscope.timeline.listing import TorchListing
from opscope.timeline.stacks import Stacks, forward_source, is_stack_entry
from support.build_trace import build_trace, span


def frame(name, start, end, kind=EventKind.PYTHON_CALL):
    return span(name, start, end, kind=kind)


def stacks_of(spans):
    stacks = Stacks(TorchListing(build_trace(spans)))
    return stacks, [stacks.of(row) for row in range(len(spans))]


def test_backward_operators_have_the_stack_of_their_forward():
    backward = {"scope": RecordScope.BACKWARD_FUNCTION, "forward_thread": 1}
    _, stacks = stacks_of([
        frame("train.py(1): step", 0, 100),
        frame("model.py(3): forward", 10, 50),
        span("aten::linear", 20, 40, sequence_number=7),
        span("aten::t", 21, 30, sequence_number=7),
        frame("tensor.py(9): backward", 60, 99),
        span("autograd::engine::evaluate_function", 61, 90, sequence_number=7, forward_thread=1),
        span("TBackward0", 62, 80, sequence_number=7, **backward),
        span("aten::t", 63, 70),
        span("AccumulateGrad", 91, 95, scope=RecordScope.BACKWARD_FUNCTION),
    ])  # fmt: skip
    forward = ["model.py(3): forward", "train.py(1): step"]

    assert stacks[6] == forward
    assert stacks[7] == forward, "what ran inside the backward node"
    assert stacks[5] == ["tensor.py(9): backward", "train.py(1): step"], "the engine itself"
    assert stacks[8] == [], "no forward to be found"


def test_what_made_the_node_is_the_last_with_its_number():
    """What needs no gradient has the number of the next node; torch's stacks take the first."""
    backward = {"scope": RecordScope.BACKWARD_FUNCTION, "forward_thread": 1}
    spans = [
        frame("mask.py(1): make", 0, 9),
        span("aten::fill_", 2, 4, sequence_number=7),
        frame("model.py(3): forward", 10, 50),
        span("aten::softmax", 20, 40, sequence_number=7),
        span("aten::_softmax", 21, 39, sequence_number=7),
        span("evaluate", 60, 90, sequence_number=7, forward_thread=1),
        span("SoftmaxBackward0", 61, 80, sequence_number=7, **backward),
    ]
    listing = TorchListing(build_trace(spans))
    assert forward_source(listing)[6] == 3, "of those with its number, the outermost"
    assert Stacks(listing, of_makers=True).of(6) == ["model.py(3): forward"]
    assert Stacks(listing).of(6) == ["mask.py(1): make"]


def test_frames_torch_hides_are_left_out():
    _, stacks = stacks_of([
        frame("main.py(1): f", 0, 100),
        frame("torch/autograd/__init__.py(200): backward", 10, 90),
        span("aten::mm", 20, 30),
    ])  # fmt: skip

    assert stacks[2] == ["main.py(1): f"]
    assert not is_stack_entry("torch/autograd/__init__.py(80): _make_grads")
    assert is_stack_entry("torch/_tensor.py(566): backward")


def test_limits_and_signatures_look_at_the_innermost_frames():
    stacks, _ = stacks_of([
        frame("a.py(1): a", 0, 50),
        frame("f.py(1): f", 1, 40),
        span("aten::mm", 2, 30),
        frame("b.py(1): b", 100, 150),
        frame("f.py(1): f", 101, 140),
        span("aten::mm", 102, 130),
    ])  # fmt: skip

    assert stacks.of(2, limit=1) == ["f.py(1): f"]
    one, two = stacks.signatures(1), stacks.signatures(2)
    assert one[2] == one[5] and two[2] != two[5]
    assert stacks.longest_entry() == len("f.py(1): f")
