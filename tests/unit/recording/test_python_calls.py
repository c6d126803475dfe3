"""Python calls as spans: nesting, generators, errors, recursion; on any interpreter, no torch."""

import contextlib
import functools
import gc
import inspect
import sys

import pytest

from opscope import _native
from support.record_python import PythonWindow, leaf, record, shapes

pytest_plugins = ["support.without_torch"]
pytestmark = pytest.mark.usefixtures("nothing_left_over", "no_torch")

both_levels = pytest.mark.parametrize("level", ["PYTHON", "FUNCTIONS"])


def test_calls_nest_and_carry_their_caller_s_line():
    def outer():
        leaf()
        len([])

    call = record(outer)
    first = inspect.getsourcelines(outer)[1]
    assert shapes(call) == ["leaf", "<built-in function len>"]
    assert [child.line for child in call.children] == [first + 1, first + 2]
    assert not call.unfinished


def test_what_a_with_statement_calls_of_ours_is_no_call():
    class Ours:
        def _enter(self):
            leaf()
            return self

        def _exit(self, *_):
            leaf()

        __enter__ = _native.method(_enter, _exit)
        __exit__ = _native.method(_exit, _exit)

    def work():
        with Ours():
            len("")

    call = record(work)
    names = [found.name for found in call.find_all()]
    assert names == ["work", "_enter", "leaf", "<built-in function len>", "_exit", "leaf"]


@both_levels
def test_generators_are_a_span_each_time_they_run(level):
    def numbers():
        for i in range(2):
            yield leaf(i)

    def outer():
        return list(numbers())

    call = record(outer, level, "NEW_THREADS")
    assert shapes(call) == [("numbers", "leaf"), ("numbers", "leaf"), "numbers"]


def test_generators_that_interleave_or_are_closed_early():
    def numbers():
        yield 1
        yield 2

    def outer():
        a, b = numbers(), numbers()
        next(a), next(b), next(a)
        with contextlib.suppress(RuntimeError):
            b.throw(RuntimeError)
        a.close()
        leaf()

    call = record(outer)
    assert len(call.find("numbers")) >= 4
    assert call.children[-1].name == "leaf"
    assert not any(found.unfinished for found in call.find("numbers"))


@both_levels
@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_exceptions_end_every_span_they_leave(level, error):
    def fail(_):
        raise error

    def middle():
        sorted([2, 1], key=fail)

    def outer():
        try:
            middle()
        except BaseException as raised:
            assert type(raised) is error
        leaf()

    call = record(outer, level, "NEW_THREADS")
    inside = ("<built-in function sorted>", "fail") if level == "PYTHON" else "fail"
    assert shapes(call) == [("middle", inside), "leaf"]
    assert not any(found.unfinished for found in call.find_all())


def test_callbacks_from_c_belong_to_the_c_function():
    def key(item):
        return leaf(item)

    def outer():
        sorted([2, 1], key=key)
        list(map(leaf, [1]))
        functools.partial(leaf, 1)()

    call = record(outer)
    inside = ("key", "leaf")
    assert shapes(call) == [("<built-in function sorted>", inside, inside), "leaf", "leaf"]
    first = inspect.getsourcelines(outer)[1]
    lines = [found.line for found in call.find("key")]
    assert lines == [first + 1, first + 1], "every time, not only the first"
    assert [child.line for child in call.children] == [first + 1, first + 2, first + 3]


def test_lines_are_those_that_frames_say_in_code_of_any_form():
    gaps = "\n" * 200  # more than one entry of a table of lines can skip
    body = f"""
note(
    note(),
{gaps}
    [note() for _ in range(2)
     if
     note()],
)
try:
    with manager(note()):
        raise ValueError
except ValueError: note(); note()
finally:
    note()
for _ in (1, 2): (lambda: note())()
return note(*(
    note()
    for _ in (1,)), **{{"a":
        note()}})
"""
    long = "\n".join(f"note({i}) if {i} % 7 else note(\n{i}\n)" for i in range(2000))
    seen = []

    def note(*_args, **_named):
        seen.append(sys._getframe(1).f_lineno)
        return True

    source = "def outer():\n" + "\n".join("  " + line for line in (long + body).split("\n"))
    names = {"note": note, "manager": contextlib.nullcontext}
    exec(compile(source, "generated.py", "exec"), names)
    lines = [found.line for found in record(names["outer"]).find("note")]
    assert len(lines) > 2000
    assert lines == seen


def test_special_methods_know_their_line():
    class Number:
        def __add__(self, other):
            return leaf()

    def outer():
        number = Number()
        return number + 1

    (call,) = record(outer).find("__add__")
    assert call.line == inspect.getsourcelines(outer)[1] + 2


def test_methods_of_classes_that_come_and_go_are_named_after_their_own():
    def work(number):
        kind = type(f"Kind{number:03}", (list,), {})
        kind().append(1)

    window = PythonWindow()
    for number in range(6):
        work(number)
        gc.collect()
    names = [call.name for root in window.end() for call in root.find_all()]
    kinds = [name.split()[4] for name in names if "method append of Kind" in name]
    assert kinds == [f"Kind{number:03}" for number in range(6)]


def test_two_functions_in_a_line_and_a_tracer_that_knew_one():
    """They share a name, but not their instructions."""
    source = "first, second = lambda f: f(), lambda f: (f(), f(), [f() for _ in 'ab'], f())[1]\n"
    namespace = {}
    exec(compile(source, "/program/lambdas.py", "exec"), namespace)

    def outer():
        namespace["first"](leaf)
        namespace["second"](leaf)

    previous = sys.gettrace()
    sys.settrace(lambda *_: lambda *_: None)
    try:
        outer()
    finally:
        sys.settrace(previous)
    assert {found.line for found in record(outer).find("leaf")} <= {1, -1}


def test_opscope_s_own_functions_are_left_out_with_what_they_call():
    namespace = {"leaf": leaf}
    source = "def ours(): return leaf(), sorted([2, 1], key=leaf)\n"
    exec(compile(source, "/hidden/ours.py", "exec"), namespace)
    program = "def runs(): return leaf()\n"
    exec(compile(program, "/hidden/program.py", "exec"), namespace)
    exec(compile("def ours_runs(): return runs()\n", "/hidden/other.py", "exec"), namespace)
    _native.set_up_python("/hidden/", "/hidden/shown.py", "/hidden/program.py", *[None] * 4)

    def outer():
        namespace["ours"]()
        leaf()
        namespace["ours_runs"]()

    try:
        call = record(outer)
    finally:
        _native.set_up_python("", "", "", *[None] * 4)
    assert shapes(call) == ["leaf", "leaf"], "the second is what the program's runner called"
