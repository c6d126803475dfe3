"""Standing before the hooks of uncaught exceptions, whoever else does."""

import sys
import threading

import pytest

from opscope.live.flight.trigger import Watched
from opscope.live.flight.uncaught_errors import UncaughtException


class Unspeakable(RuntimeError):
    def __str__(self):
        raise ValueError("no words")


@pytest.fixture
def said(monkeypatch):
    """What the program's own hook has been told."""
    told = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, traceback: told.append(error))
    monkeypatch.setattr(threading, "excepthook", told.append)
    return told


def watched(dumped):
    return Watched(dumped.append, None, None)


def test_a_hook_of_the_program_s_around_ours_stays_when_the_recorder_starts_again(said):
    trigger, dumped, error = UncaughtException(), [], ValueError("lost")
    trigger.begin(watched(dumped))
    before_ours, seen = sys.excepthook, []

    def programs(kind, error, traceback):
        seen.append(error)
        before_ours(kind, error, traceback)

    sys.excepthook = programs
    trigger.end()
    trigger.begin(watched(dumped))
    sys.excepthook(ValueError, error, None)
    assert (said, seen, dumped) == ([error], [error], ["ValueError: lost, in the main thread"])
    trigger.end()
    assert sys.excepthook is programs


def test_an_exception_without_words_is_noticed_and_reaches_the_program_s_hook(said):
    trigger, dumped, error = UncaughtException(), [], Unspeakable()
    trigger.begin(watched(dumped))
    sys.excepthook(Unspeakable, error, None)
    trigger.end()
    assert (said, dumped) == ([error], ["Unspeakable, in the main thread"])


def test_where_no_dump_can_be_requested_the_program_s_hook_is_called_all_the_same(said):
    def no_dump(detail):
        raise OSError("nothing left")

    trigger, error = UncaughtException(), ValueError()
    trigger.begin(Watched(no_dump, None, None))
    sys.excepthook(ValueError, error, None)
    trigger.end()
    assert said == [error]
