"""Event trees of real programs: as written down here, and as torch.profiler records them."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import programs.tree_programs as programs  # noqa: E402
from opscope.columns.schema import RecordScope  # noqa: E402
from opscope.timeline.tree.node import NodeKind, OperatorDetail, PythonDetail  # noqa: E402
from support.tree_text import SAME_FUNCTIONS, inside, lines, name_of, ours, theirs  # noqa: E402

MEMORY, STACK = {"profile_memory": True}, {"with_stack": True}
EVERYTHING = {**MEMORY, **STACK, "record_shapes": True}

PROGRAMS = [
    programs.differentiate, programs.annotate, programs.call_modules, programs.train,
    programs.call_torch_function, programs.dispatch_in_python, programs.differentiate_own_function,
    programs.recompute, programs.free_and_raise,
]  # fmt: skip

# torch ends an annotation with the function that opened it, here record_function.__enter__, so
# that it contains nothing; opscope lets it contain what runs in it.
ANNOTATED = [programs.annotate, programs.train]


def tree_of(make, **options):
    make()()  # what is made once in a process is made by now
    return ours(make(), **options).trace.tree()


def find(tree, name):
    return next(node for node in tree.depth_first() if name_of(node) == name)


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_without_stacks_the_tree_is_torchs(make):
    tree = tree_of(make, **MEMORY)

    expected = lines(theirs(make(), **MEMORY))

    assert expected
    assert lines(tree.roots) == expected


@pytest.mark.parametrize(
    "make", [make for make in PROGRAMS if make not in ANNOTATED], ids=lambda make: make.__name__
)
def test_with_stacks_the_tree_is_torchs(make):
    tree = tree_of(make, **EVERYTHING)

    expected = lines(inside(theirs(make(), **EVERYTHING)), with_functions=SAME_FUNCTIONS)

    assert expected
    assert lines(inside(tree.roots), with_functions=SAME_FUNCTIONS) == expected


@pytest.mark.parametrize("make", ANNOTATED, ids=lambda make: make.__name__)
def test_stacks_add_nodes_and_move_none(make):
    make = programs.annotate_and_close if make is programs.annotate else make
    plain = lines(tree_of(make).roots)

    with_stack = tree_of(make, **STACK)

    assert lines(inside(with_stack.roots), with_functions=False, with_modules=False) == plain


def test_an_annotation_without_exit_ends_with_its_parent_and_keeps_its_children():
    tree = tree_of(programs.annotate)
    annotation = find(tree, "never closed")

    assert annotation.unfinished
    assert annotation.parent == find(tree, "whole")
    assert annotation.end_ns == find(tree, "whole").end_ns
    assert [child.name for child in annotation.children] == ["aten::mul", "backward"]


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_who_calls_a_function_is_the_function_around_it(make):
    tree = tree_of(make, **STACK)
    functions = [node for node in tree.depth_first() if isinstance(node.detail, PythonDetail)]

    for node in functions:
        caller, around = node.detail.caller, next(filter(is_python, ancestors(node)), None)
        if around is not None:
            frame = around.detail.frame
            assert (caller.file, caller.function) == (frame.file, frame.function)
    assert len(functions) > 3


def test_details_of_a_training_step():
    tree = tree_of(programs.train, **EVERYTHING)
    module, step = find(tree, "nn.Module: Linear_0"), find(tree, "Optimizer.step#SGD.step")
    forward, node = find(tree, "aten::addmm"), find(tree, "AddmmBackward0")

    assert isinstance(module.detail, PythonDetail)
    assert (module.kind, module.detail.class_name) == (NodeKind.MODULE_CALL, "Linear")
    assert step.kind is NodeKind.ANNOTATION
    assert isinstance(forward.detail, OperatorDetail) and isinstance(node.detail, OperatorDetail)
    assert forward.detail.scope is RecordScope.FUNCTION
    assert node.detail.scope is RecordScope.BACKWARD_FUNCTION
    # The first layer's backward runs last, so the first found belongs to the second layer.
    last_forward = [n for n in tree.depth_first() if n.name == "aten::addmm"][-1]
    assert node.detail.sequence_number == last_forward.detail.sequence_number
    assert all(child.start_ns >= node.start_ns for child in node.children)
    assert all(child.end_ns <= node.end_ns for child in node.children)


def is_python(node):
    return node.kind in (NodeKind.PYTHON_CALL, NodeKind.MODULE_CALL)


def ancestors(node):
    while (node := node.parent) is not None:
        yield node
