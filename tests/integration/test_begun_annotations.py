"""Annotations that were entered before a recording began."""

import os
import threading

import pytest
import torch

import opscope
from opscope import record_function


def rows(prof, *names):
    trace = prof.trace
    events = trace.events
    found = []
    for row in range(len(events)):
        if (name := trace.event_name(row)) in names:
            parent = int(events["parent"][row])
            from_start = bool(events["start_ns"][row] == trace.metadata["start_ns"])
            around = trace.event_name(parent) if parent >= 0 else None
            found.append((name, from_start, bool(events["unfinished"][row]), around))
    return found


def test_nested_ones_are_there_from_the_beginning_and_end_where_they_are_left():
    outer, inner = record_function("outer"), record_function("inner")
    outer.__enter__()
    inner.__enter__()
    with opscope.profile() as prof:
        torch.ones(2)
        inner.__exit__(None, None, None)
        torch.zeros(2)
        outer.__exit__(None, None, None)
        torch.empty(2)
    names = ("outer", "inner", "aten::ones", "aten::zeros", "aten::empty")
    assert [row for row in rows(prof, *names) if row[3] not in names[2:]] == [
        ("outer", True, False, None),
        ("inner", True, False, "outer"),
        ("aten::ones", False, False, "inner"),
        ("aten::zeros", False, False, "outer"),
        ("aten::empty", False, False, None),
    ]


def test_one_that_outlives_the_recording_is_cut_at_both_ends_and_then_in_no_other():
    span = record_function("span")
    span.__enter__()
    with opscope.profile() as prof:
        torch.ones(2)
    assert rows(prof, "span") == [("span", True, True, None)]
    span.__exit__(None, None, None)
    with opscope.profile() as prof:
        torch.ones(2)
    assert rows(prof, "span") == []


def test_one_that_is_dropped_without_an_exit_ends_there():
    span = record_function("span")
    span.__enter__()
    with opscope.profile() as prof:
        torch.ones(2)
        del span
        torch.zeros(2)
    assert rows(prof, "span", "aten::zeros") == [
        ("span", True, False, None),
        ("aten::zeros", False, False, None),
    ]


def test_of_another_thread_and_ended_on_this_one():
    ready, go, done = threading.Event(), threading.Event(), threading.Event()
    span = record_function("theirs")

    def work():
        span.__enter__()
        ready.set()
        go.wait()
        torch.ones(2)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    with opscope.profile() as prof:
        go.set()
        done.wait()
        span.__exit__(None, None, None)
        torch.zeros(2)
        thread.join()
    assert rows(prof, "theirs", "aten::ones", "aten::zeros") == [
        ("theirs", True, False, None),
        ("aten::ones", False, False, "theirs"),
        ("aten::zeros", False, False, None),
    ]


def test_between_the_functions_that_it_began_between():
    prof = opscope.profile(with_stack=True)

    def begins():
        prof.start()
        torch.ones(2)

    def annotates():
        with record_function("span"):
            begins()

    annotates()
    prof.stop()
    ((_, from_start, _, around),) = rows(prof, "span")
    assert from_start
    assert around.endswith("annotates")
    named = [prof.trace.event_name(row) for row in range(len(prof.trace.events))]
    (begun,) = [name for name in named if name.endswith(": begins")]
    assert [around for *_, around in rows(prof, begun)] == ["span"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_what_a_fork_did_not_copy_is_not_there():
    ready, go = threading.Event(), threading.Event()

    def work():
        with record_function("theirs"):
            ready.set()
            go.wait()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    with record_function("ours"):
        child = os.fork()
        if child == 0:
            with opscope.profile() as prof:
                torch.ones(2)
            os._exit(rows(prof, "theirs", "ours") != [("ours", True, True, None)])
        _, status = os.waitpid(child, 0)
    go.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
