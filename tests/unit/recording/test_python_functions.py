"""Calls of Python functions without C functions, on any interpreter, no torch."""

import ctypes
import gc
import inspect
import sys

import pytest

from support.record_python import PythonWindow, leaf, record, shapes

pytest_plugins = ["support.without_torch"]
pytestmark = pytest.mark.usefixtures("nothing_left_over", "no_torch", "no_hook_of_ours")

FUNCTIONS = ("FUNCTIONS", "NEW_THREADS")

uses_evaluation = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="sys.monitoring is used there"
)


def evaluation_hook() -> object:
    """The address of the function that evaluates frames; None: there is no such hook."""
    interpreter = ctypes.pythonapi.PyInterpreterState_Get
    interpreter.restype = ctypes.c_void_p
    hook = ctypes.pythonapi._PyInterpreterState_GetEvalFrameFunc
    hook.restype, hook.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    return hook(interpreter())


@pytest.fixture
def no_hook_of_ours():
    """Who evaluates frames is as before."""
    before = evaluation_hook()
    yield
    assert evaluation_hook() == before


def test_functions_nest_and_carry_their_caller_s_line_without_c_functions():
    def middle():
        return sorted([2, 1], key=leaf)

    def outer():
        leaf()
        middle()

    call = record(outer, *FUNCTIONS)
    first = inspect.getsourcelines(outer)[1]
    assert shapes(call) == ["leaf", ("middle", "leaf", "leaf")]
    assert [child.line for child in call.children] == [first + 1, first + 2]
    assert not any(found.unfinished for found in call.find_all())


def test_functions_that_ran_before_end_when_they_are_seen_to_be_over():
    windows = []

    def inner():
        windows.append(PythonWindow(*FUNCTIONS))
        leaf()

    def outer():
        inner()
        leaf()

    outer()
    leaf()
    roots = windows[0].end()
    (call,) = [found for root in roots for found in root.find("outer")]
    assert not call.unfinished
    assert shapes(call) == [("inner", "__init__", "leaf"), "leaf"]
    assert not call.find("inner")[0].unfinished
    assert sum(len(root.find("leaf")) for root in roots) == 3


def test_both_levels_at_once_give_each_window_what_it_wants():
    def outer():
        leaf()
        len([])

    functions = PythonWindow(*FUNCTIONS)
    outer()
    everything = PythonWindow("PYTHON", "NEW_THREADS")
    outer()
    everything.close()
    outer()
    found = [call for root in functions.end() for call in root.find("outer")]
    assert [shapes(call) for call in found] == [["leaf"]] * 3
    (call,) = [call for root in everything.read() for call in root.find("outer")]
    assert shapes(call) == ["leaf", "<built-in function len>"]


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="only there is the stack of C spared")
def test_a_recursion_deeper_than_the_stack_of_c_is_survived_and_counted():
    def down(left):
        return down(left - 1) if left else 0

    limit = sys.getrecursionlimit()
    window = PythonWindow(*FUNCTIONS)
    sys.setrecursionlimit(300_000)
    try:
        down(200_000)
        leaf()
    finally:
        sys.setrecursionlimit(limit)
        window.close()
    window.read()
    last = window.decoded["tables"]["events"]["name"][-3:].tolist()
    offsets, text = window.decoded["name_offsets"], window.decoded["name_text"]
    assert any(text[offsets[name] : offsets[name + 1]].endswith(b": leaf") for name in last)
    ((source, what, count),) = window.decoded["account"]["notes"]
    assert (source, count > 0) == ("Python calls", True), what

    later = PythonWindow(*FUNCTIONS)
    leaf()
    later.end()
    assert later.decoded["account"]["notes"] == [], "it heard everything"


@uses_evaluation
def test_another_hook_that_comes_and_goes_above_ours_is_left_alone():
    evaluate = ctypes.pythonapi._PyEval_EvalFrameDefault
    interpreter = ctypes.pythonapi.PyInterpreterState_Get
    interpreter.restype = ctypes.c_void_p
    exchange = ctypes.pythonapi._PyInterpreterState_SetEvalFrameFunc
    exchange.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    exchange.restype = None
    before = evaluation_hook()
    window = PythonWindow(*FUNCTIONS)
    ours = evaluation_hook()
    assert ours != before
    exchange(interpreter(), ctypes.cast(evaluate, ctypes.c_void_p))
    leaf()
    window.close()  # cannot take it out of what the other calls
    exchange(interpreter(), ours)  # as the other leaves
    leaf()
    later = PythonWindow(*FUNCTIONS)
    leaf()
    later.close()
    window.read()
    assert evaluation_hook() == before
    assert sum(len(root.find("leaf")) for root in later.read()) == 1


def test_garbage_is_collected_in_the_middle():
    class Node:
        def __del__(self):
            leaf()

    def outer():
        node = Node()
        node.itself = node
        del node
        gc.collect()

    call = record(outer, *FUNCTIONS)
    assert ("__del__", "leaf") in shapes(call)  # whatever else was garbage
