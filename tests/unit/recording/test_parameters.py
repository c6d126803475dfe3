"""Errors of ours, and those that a signal's handler raised in the middle."""

import functools
import signal

import pytest

from opscope.recording.parameters import raised_by_handler


class Handler:
    def __call__(self, *_):
        raise TimeoutError

    def method(self, *_):
        return self()


def function(*_):
    raise TimeoutError


HANDLERS = {
    "a function": function,
    "a bound method": Handler().method,
    "an object": Handler(),
    "a partial function": functools.partial(function, 1),
    "inside one": lambda *_: function(),
}


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_errors_of_handlers(handler):
    def interrupted():
        signal.raise_signal(signal.SIGUSR2)

    previous = signal.signal(signal.SIGUSR2, handler)
    try:
        with pytest.raises(TimeoutError) as caught:
            interrupted()
        assert raised_by_handler(caught.value)
    finally:
        signal.signal(signal.SIGUSR2, previous)


@pytest.mark.parametrize("failing", [function, functools.partial(function, 1), lambda: [][0]])
def test_errors_of_anything_else(failing):
    with pytest.raises((TimeoutError, IndexError)) as caught:
        failing()
    assert not raised_by_handler(caught.value)


def test_what_is_no_error_is_meant_for_the_program():
    assert raised_by_handler(KeyboardInterrupt())
    assert raised_by_handler(SystemExit())
