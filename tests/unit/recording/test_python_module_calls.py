"""Module calls however they are made and however they fail: as many as began; no torch."""

import contextlib
import functools
import gc
import signal
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from opscope import _native
from support.record_python import PythonWindow

pytest_plugins = ["support.without_torch"]
pytestmark = pytest.mark.usefixtures("nothing_left_over", "no_torch", "module_calls")

WAYS = [("MODULES",), ("PYTHON",), ("PYTHON", "MODULES")]
all_ways = pytest.mark.parametrize("wants", WAYS, ids="+".join)
# Python 3.11 calls a function that Python code names past what is exchanged.
past_the_exchange = sys.version_info[:2] == (3, 11)


class Module:
    """Stands for nn.Module: counts its own calls."""

    began: Counter[str] = Counter()

    def __call__(self, *args, **kwargs):
        Module.began[type(self).__name__] += 1
        return self.forward(*args, **kwargs)

    def forward(self, *args, **kwargs):
        return args


@pytest.fixture
def module_calls():
    Module.began.clear()
    _native.set_up_python("", "", "", Module.__call__, *[None] * 3)
    yield
    _native.set_up_python("", "", "", *[None] * 4)


def recorded(program, wants) -> Counter[str]:
    """Calls by class while ``program`` ran."""
    window = PythonWindow(*wants)
    try:
        program()
        window.close()
        decoded = _native.decode(window.id, [])
    finally:
        _native.discard_window(window.id)
    assert decoded["account"]["unmatched_ends"] == 0
    events, offsets = decoded["tables"]["events"], decoded["name_offsets"]
    texts = [
        decoded["name_text"][offsets[name] : offsets[name + 1]].decode() for name in events["name"]
    ]
    is_module = [text.startswith("nn.Module: ") for text in texts]
    assert not events["unfinished"][is_module].any()
    modules = [text for text in texts if text.startswith("nn.Module: ")]
    return Counter(text.removeprefix("nn.Module: ").rpartition("_")[0] for text in modules)


@all_ways
def test_a_call_that_fails_before_it_begins_leaves_nothing_behind(wants):
    class Victim(Module):
        pass

    class Other(Module):
        pass

    def program():
        other = Other()
        for _ in range(50):
            with contextlib.suppress(TypeError):
                Victim()(1, self=1)
            gc.collect(0)
            Module.__call__(other)

    assert recorded(program, wants)["Victim"] == 0
    if wants != ("MODULES",) or not past_the_exchange:
        assert recorded(program, wants) == {"Other": 50}


@all_ways
def test_modules_whenever_their_class_was_made(wants):
    class Before(Module):
        pass

    slots = []

    def program():
        class During(Module):
            def __call__(self, *args, **kwargs):
                return super().__call__(*args, **kwargs)

        class Outer(Module):
            def forward(self):
                return Before()(), During()()

        Outer()()
        with contextlib.suppress(TypeError):
            Module.__call__()
        slots.extend([During.__call__, Module.__call__])

    assert recorded(program, wants) == Module.began == {"Outer": 1, "Before": 1, "During": 1}
    assert all(type(slot) is type(program) for slot in slots)


def test_an_address_used_again_is_another_module():
    window = PythonWindow("MODULES")
    for _ in range(5):
        Module()()
    window.end()
    assert len(window.decoded["tables"]["modules"]["address"]) == 5


@all_ways
def test_every_way_to_call_a_module(wants):
    class Outer(Module):
        def __call__(self, *args, **kwargs):
            return super().__call__(*args, **kwargs)

        def forward(self, inner):
            return inner(inner)

    class Inner(Module):
        def forward(self, other):
            return other if other is None else self(None)

    def program():
        inner = Inner()
        functools.partial(Outer(), inner)()
        list(map(Outer(), [inner]))
        max([1], key=inner)
        Module.__call__(*(), self=inner, other=None)
        Outer().__call__(*[inner])

    assert recorded(program, wants) == Module.began
    assert Module.began == {"Outer": 3, "Inner": 3 * 2 + 2 + 1}


@all_ways
def test_calls_that_raise_anywhere(wants):
    class NoForward(Module):
        @property
        def forward(self):
            raise AttributeError("forward")

    class NoAttribute(Module):
        def __getattribute__(self, name):
            raise KeyError(name)

    class Hooked(Module):
        def forward(self, argument):
            raise SystemExit

    def program():
        for module in (NoForward(), NoAttribute(), Hooked()):
            for arguments in ((1,), (), (1, 2)):
                with contextlib.suppress(AttributeError, KeyError, TypeError, SystemExit):
                    module(*arguments)

    assert recorded(program, wants) == Module.began
    assert set(Module.began.values()) == {3}


@all_ways
def test_generators_that_are_closed_and_thrown_into(wants):
    class Yielding(Module):
        def forward(self) -> Iterator[int]:
            try:
                yield from self.values()
            finally:
                Module.__call__(*[Last()])

        def values(self) -> Iterator[int]:
            yield 1
            yield 2

    class Last(Module):
        pass

    def program():
        closed, thrown, kept = Yielding()(), Yielding()(), Yielding()()
        next(closed), next(thrown), next(kept)
        closed.close()
        with contextlib.suppress(ValueError):
            thrown.throw(ValueError)
        del kept

    assert recorded(program, wants) == Module.began == {"Yielding": 3, "Last": 3}


@all_ways
def test_in_threads_that_trace(wants):
    """Where another tool is in the middle of its work, calls are not reported by Python."""

    class Traced(Module):
        pass

    def trace(frame, event, arg):
        if frame.f_code is target.__code__:
            Traced()()

    def target():
        return 1

    def program():
        sys.settrace(trace)
        try:
            target()
        finally:
            sys.settrace(None)
        Traced()()

    previous = sys.gettrace()
    try:
        assert recorded(program, wants) == Module.began == {"Traced": 2}
    finally:
        sys.settrace(previous)


@all_ways
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_an_interruption_while_a_module_is_read_reaches_the_program(wants, error):
    class Read(Module):
        pass

    reads = []

    def interrupt(number, frame):
        raise error

    def reader(module):
        reads.append(module)
        if len(reads) == 1:
            signal.raise_signal(signal.SIGUSR1)
        return []

    def program():
        try:
            for _ in range(10):
                Read()(), leave_room_for_signals()
        except error:
            interrupted.append(True)
        module = Read()
        module(), module()

    interrupted: list[bool] = []
    _native.set_up_python("", "", "", Module.__call__, None, reader, None)
    previous = signal.signal(signal.SIGUSR1, interrupt)
    try:
        calls = recorded(program, wants)
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert calls["Read"] - Module.began["Read"] in (0, 1), "it may have begun, but not got to count"
    assert interrupted == [True]
    assert len(reads) == len(set(map(id, reads))) == 2, "read again only where it was interrupted"
    reads.clear()


def leave_room_for_signals() -> None:
    for _ in range(3):
        pass


@all_ways
def test_a_module_first_called_at_the_end_of_the_stack_is_read_by_a_later_call(wants):
    class Deep(Module):
        pass

    begun, read = [], []

    def reader(module):
        def deeper(left):
            return deeper(left - 1) if left else []

        begun.append(True)
        rows = deeper(100)
        read.append(True)
        return rows

    def program():
        deep = Deep()

        def down():
            with contextlib.suppress(RecursionError):
                down()
            with contextlib.suppress(RecursionError):
                deep()

        down()

    _native.set_up_python("", "", "", Module.__call__, None, reader, None)
    calls = recorded(program, wants)
    assert len(begun) > len(read) == 1
    assert 0 <= calls["Deep"] - Module.began["Deep"] <= 10, "a few find no room to begin"
