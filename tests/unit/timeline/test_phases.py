"""Which part of a training step events are in."""

from __future__ import annotations

from opscope.columns.schema import EventKind, RecordScope
from opscope.timeline.phases import NO_PHASE, Phase, find_phases
from support.build_trace import build_trace, span

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def phases_of(spans):
    found = find_phases(build_trace(spans))
    return found.phase.tolist(), found.outermost.tolist()


def test_a_training_step_is_read_off_the_spans_torch_emits():
    phase, outermost = phases_of(
        [
            span("ProfilerStep#0", 0, 100),
            span(LOADER, 1, 10, kind=EventKind.ANNOTATION),
            span("aten::stack", 2, 5),
            span("aten::linear", 12, 20),
            span("aten::addmm", 13, 19),
            span("autograd::engine::evaluate_function: AddmmBackward0", 30, 40),
            span("AddmmBackward0", 31, 39, scope=RecordScope.BACKWARD_FUNCTION),
            span("Optimizer.step#SGD.step", 50, 60, kind=EventKind.ANNOTATION),
            span("aten::add_", 51, 52),
            span("gc: generation 0", 70, 71, kind=EventKind.GC_PAUSE),
        ]
    )
    assert phase == [
        NO_PHASE, Phase.DATA_LOADING, Phase.DATA_LOADING, Phase.FORWARD, Phase.FORWARD,
        Phase.BACKWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.OPTIMIZER,
        Phase.GARBAGE_COLLECTION,
    ]  # fmt: skip
    entered = [False, True, False, True, False, True, False, True, False, True]
    assert outermost == entered


def test_gradients_that_ddp_puts_in_place_after_the_last_node_are_of_the_backward_pass():
    phase, _ = phases_of(
        [
            span("aten::linear", 0, 10),
            span("torch.distributed.ddp.reducer::search_unused_parameters", 10, 11),
            span("autograd::engine::evaluate_function: AddmmBackward0", 20, 30),
            span("torch.distributed.ddp.reducer::copy_bucket_to_grad", 40, 50),
            span("aten::copy_", 41, 45),
        ]
    )
    assert phase == [Phase.FORWARD] * 2 + [Phase.BACKWARD] * 3


def test_what_begins_inside_a_mark_is_in_its_phase_even_if_not_nested_in_it():
    # with_stack: the annotation begins inside the call that opens it, and outlives that
    phase, _ = phases_of(
        [
            span("enter", 0, 2, kind=EventKind.C_CALL, parent=-1),
            span(LOADER, 1, 20, kind=EventKind.ANNOTATION, parent=0),
            span("aten::stack", 5, 8, parent=-1),
            span("aten::relu", 20, 25, parent=-1),
        ]
    )
    assert phase == [NO_PHASE, Phase.DATA_LOADING, Phase.DATA_LOADING, Phase.FORWARD]
