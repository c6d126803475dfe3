"""What a dump says all threads were running in Python."""

import faulthandler
import os
import re
import sys
import threading

import pytest

from opscope import _native

_LEFT_OUT = "  ..."


@pytest.fixture
def waiting():
    """Begins threads that wait in so many functions, and ends them."""
    over, began = threading.Event(), []

    def deep(left, ready):
        if left:
            return deep(left - 1, ready)
        ready.set()
        over.wait()

    def begin(depth, **given):
        ready = threading.Event()
        thread = threading.Thread(target=deep, args=(depth, ready), daemon=True, **given)
        began.append(thread)
        thread.start()
        ready.wait()
        return thread

    yield begin
    over.set()
    for thread in began:
        thread.join()


def stacks(names=None):
    """By the thread's identifier, each line without what leads to it."""
    text = _native.python_stacks(names or {})
    found = {}
    for part in text.split("\n\n"):
        title, *lines = part.rstrip("\n").split("\n")
        number = re.match(r"Thread (0x[0-9a-f]{16})( \[.*\])? \(most recent call first\):$", title)
        found[int(number[1], 16)] = [number[2], *lines]
    return found


def test_they_are_those_of_faulthandler_with_the_names_that_are_known(waiting, tmp_path):
    threads = [waiting(0, name="a [strange] näme"), waiting(1), waiting(30)]
    with open(tmp_path / "expected", "w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        expected = file.read().split("\n\n")
    found = stacks({threads[0].ident: threads[0].name})
    for thread in threads:
        (of_it,) = [part for part in expected if f"{thread.ident:016x}" in part.split("\n")[0]]
        # All but the functions of `threading` in which it came to wait, or still comes.
        lines = [line for line in of_it.rstrip("\n").split("\n")[1:] if " in deep" in line]
        assert [line for line in found[thread.ident] if line and " in deep" in line] == lines
    names = [found[thread.ident][0] for thread in threads]
    assert names == [" [a [strange] näme]", None, None]
    assert threading.get_ident() not in found, "who asks is not listed"


def test_deep_stacks_are_cut(waiting):
    thread = waiting(150)
    _, *lines = stacks()[thread.ident]
    assert len(lines) == 101
    assert lines[-1] == _LEFT_OUT


def test_a_file_whose_name_is_no_text(waiting):
    ready, over = threading.Event(), threading.Event()
    code = compile("def waits():\n  ready.set()\n  over.wait()", "no\udc80text", "exec")
    names = {"ready": ready, "over": over}
    exec(code, names)
    thread = threading.Thread(target=names["waits"])
    thread.start()
    ready.wait()
    lines = stacks()[thread.ident]
    over.set()
    thread.join()
    assert any(line == '  File "?", line 3 in waits' for line in lines[1:])


@pytest.fixture
def rare_switches():
    """Nobody is asked to leave the GIL: who has it keeps it until it leaves it by itself."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(60)
    yield
    sys.setswitchinterval(before)


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no GIL to leave"
)
def test_others_run_while_the_text_is_made(waiting, rare_switches):
    for _ in range(20):
        waiting(90)
    is_over, turns = threading.Event(), [0]

    def takes_turns():
        while not is_over.wait(0.00001):
            turns[0] += 1

    thread = threading.Thread(target=takes_turns)
    thread.start()
    for _ in range(500):  # on a busy machine it may find no processor meanwhile
        before = turns[0]
        text = _native.python_stacks({})
        during = turns[0] - before
        if during:
            break
    is_over.set()
    thread.join()
    assert text.count(" in deep") > 1500
    assert during > 0


def test_threads_that_begin_and_end_meanwhile(waiting):
    is_over = threading.Event()

    def begins_threads():
        while not is_over.is_set():
            thread = threading.Thread(target=len, args=((),))
            thread.start()
            thread.join()

    makers = [threading.Thread(target=begins_threads) for _ in range(3)]
    for maker in makers:
        maker.start()
    try:
        for _ in range(200):
            assert "begins_threads" in _native.python_stacks({})
    finally:
        is_over.set()
        for maker in makers:
            maker.join()


def test_a_forked_child_has_its_own(waiting):
    waiting(3)
    child = os.fork()
    if not child:
        os._exit(0 if _native.python_stacks({}) == "" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
