"""Calls of the program's own Python functions alone, on any interpreter, no torch."""

import sys
import types

import pytest

from opscope import _native
from support.record_python import PythonWindow, leaf, record, shapes

pytest_plugins = ["support.without_torch"]
pytestmark = pytest.mark.usefixtures("nothing_left_over", "no_torch", "libraries")

OWN = ("OWN_FUNCTIONS", "NEW_THREADS")
ALL = ("FUNCTIONS", "NEW_THREADS")


@pytest.fixture
def libraries():
    """What is under /installed/ is a library's, and Python's own is."""
    marks = ["/installed/", "/lib/python3", "<frozen"]
    _native.set_up_python(
        "", "", "", *[None] * 4,
        library_marks=marks, library_endings=["/starter"], recorded_functions=["queue.py:waits"],
    )  # fmt: skip
    yield
    _native.set_up_python("", "", "", *[None] * 4)


@pytest.fixture
def library():
    """Functions that call what they are given, once and for each of a generator's values."""
    module = types.ModuleType("library")
    source = """
def calls(function):
    return inner(function)

def inner(function):
    return function()

def yields(function):
    for _ in range(3):
        yield function()

def fails(function):
    function()
    raise ValueError
"""
    exec(compile(source, "/installed/library.py", "exec"), vars(module))
    return module


def test_of_libraries_only_what_the_program_calls_is_recorded_and_what_they_call_of_it(library):
    def outer():
        library.calls(leaf)
        leaf()

    call = record(outer, *OWN)
    assert shapes(call) == [("calls", "leaf"), "leaf"]
    first = outer.__code__.co_firstlineno
    assert [child.line for child in call.children] == [first + 1, first + 2], "lines of outer"


def test_what_libraries_call_very_often_before_the_program_does_passes_through(library):
    def outer():
        for _ in range(100):
            library.calls(leaf)
        library.inner(leaf)
        list(library.yields(leaf))
        leaf()

    call = record(outer, *OWN)
    assert shapes(call)[:100] == [("calls", "leaf")] * 100
    inner = shapes(call)[100]
    assert inner == ("inner", "leaf") or (inner == "leaf" and sys.version_info >= (3, 12))
    assert shapes(call)[-1] == "leaf"
    assert not any(found.unfinished for found in call.find_all())

    def again():
        library.inner(leaf)

    assert shapes(record(again, *OWN)) == [("inner", "leaf")], "a new recording hears it again"


def test_what_waits_in_a_library_is_recorded_so_that_the_time_is_not_the_callers():
    source = "def waits(function): return function()\ndef works(function): return waits(function)"

    def outer():
        for file in ("/installed/queue.py", "/installed/other.py", "/mine/queue.py"):
            scope = {}
            exec(compile(source, file, "exec"), scope)
            scope["works"](leaf)

    found = shapes(record(outer, *OWN))
    assert [one for one in found if "leaf" in str(one)] == [
        ("works", ("waits", "leaf")), ("works", "leaf"), ("works", ("waits", "leaf"))
    ]  # fmt: skip


def test_a_program_that_starts_others_is_a_library():
    source = "def starts(function): inner(function)\ndef inner(function): function()"
    for file, inside in (("starter", "leaf"), ("starter.py", ("inner", "leaf"))):
        scope = {}
        exec(compile(source, f"/usr/bin/{file}", "exec"), scope)

        def calls_it(starts=scope["starts"]):
            starts(leaf)

        found = shapes(record(calls_it, *OWN))
        assert found == [("starts", inside)]


def test_garbage_that_others_left_ends_in_no_call():
    class Left:
        def __init__(self):
            self.itself = self

        def __del__(self):
            leaf()

    def outer():
        return [[number] for number in range(20_000)]

    for _ in range(5):
        Left()
    assert not record(outer, *OWN).find("__del__")


def test_generators_and_exceptions_of_libraries_pass_through(library):
    def outer():
        assert list(library.yields(leaf)) == [1, 1, 1]
        with pytest.raises(ValueError):
            library.fails(leaf)
        leaf()

    call = record(outer, *OWN)
    assert len(call.find("leaf")) == 5
    assert not any(found.unfinished for found in call.find_all())


def test_what_libraries_ran_before_the_window_is_no_frame_of_it(library):
    windows = []

    def opens():
        windows.append(PythonWindow(*OWN))
        leaf()

    def outer():
        library.calls(opens)
        leaf()

    outer()
    leaf()
    roots = windows[0].end()
    (call,) = [found for root in roots for found in root.find("outer")]
    assert [(child.name, child.line) for child in call.children] == [
        ("opens", outer.__code__.co_firstlineno + 1),
        ("leaf", outer.__code__.co_firstlineno + 2),
    ]
    assert not any(child.unfinished for child in call.find_all())


def test_libraries_are_recorded_while_another_window_wants_them(library):
    def outer():
        library.calls(leaf)

    own = PythonWindow(*OWN)
    outer()
    functions = PythonWindow(*ALL)
    outer()
    functions.close()
    own.close()
    later = PythonWindow(*OWN)
    outer()
    later.close()
    (call,) = [found for root in functions.read() for found in root.find("outer")]
    assert shapes(call) == [("calls", ("inner", "leaf"))]
    found = [call for root in own.read() for call in root.find("outer")]
    assert shapes(found[0]) == [("calls", "leaf")]
    assert sum(len(call.find("leaf")) for call in found) == 2
    (call,) = [found for root in later.read() for found in root.find("outer")]
    assert shapes(call) == [("calls", "leaf")]
