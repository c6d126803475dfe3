"""Work whose failing is a status: it runs in a child, and the parent is what it was."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import textwrap

import pytest

from opscope import child_process
from opscope.child_process import ChildProcess


def terminate():
    ctypes.CDLL("libstdc++.so.6")._ZSt9terminatev()


def raise_error():
    raise MemoryError


@pytest.mark.parametrize(
    ("action", "ended"),
    [
        (lambda: None, ""),
        (raise_error, "failed"),
        (lambda: sys.exit(3), "failed"),
        (lambda: os._exit(0), "failed"),
        (os.abort, "was ended by SIGABRT"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "was ended by SIGSEGV"),
        (terminate, "ran out of memory"),
    ],
)
def test_how_the_child_ended_is_told(action, ended, capfd):
    assert ChildProcess().run(action)[1] == ended
    assert "terminate called" not in capfd.readouterr().err


def test_the_action_has_what_the_parent_has(tmp_path):
    text = "of the parent"
    child, ended = ChildProcess().run(lambda: (tmp_path / "a").write_text(text))
    assert (ended, (tmp_path / "a").read_text()) == ("", text)
    with pytest.raises(ChildProcessError):  # it was waited for
        os.waitpid(child, os.WNOHANG)


def test_one_that_does_not_end_is_ended():
    never, _ = os.pipe()
    _, ended = ChildProcess(longest_s=0.2).run(lambda: os.read(never, 1))
    assert ended == "did not come to an end"


def test_one_whose_parent_is_gone_does_not_stay(monkeypatch):
    monkeypatch.setattr(child_process, "_wait", lambda child, _: os.waitpid(child, 0)[1])
    never, _ = os.pipe()
    _, ended = ChildProcess(longest_s=0.2).run(lambda: os.read(never, 1))
    assert ended == "was ended by SIGALRM"


def test_an_interrupt_ends_the_child(monkeypatch):
    def interrupt(child, longest_s):
        children.append(child)
        raise KeyboardInterrupt

    children: list[int] = []
    never, _ = os.pipe()
    monkeypatch.setattr(child_process, "_wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ChildProcess().run(lambda: os.read(never, 1))
    with pytest.raises(ProcessLookupError):
        os.kill(children[0], 0)


def run(program):
    start = "import atexit, os, resource, signal, sys\nfrom opscope.child_process import *\n"
    done = subprocess.run(
        [sys.executable, "-c", start + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "handler", ["signal.SIG_IGN", "lambda *_: os.waitpid(-1, 0)"], ids=["ignored", "waits"]
)
def test_a_program_that_waits_for_all_children_itself(handler):
    program = f"""
    signal.signal(signal.SIGCHLD, {handler})
    print(ChildProcess().run(lambda: None)[1] or "came to the end")
    print(ChildProcess().run(os.abort)[1])
    """
    assert run(program)[0] == "came to the end"
    assert run(program)[1] in ("failed", "was ended by SIGABRT")


def test_at_interpreter_shutdown():
    program = """
    atexit.register(lambda: print(ChildProcess().run(lambda: os.write(1, b"child\\n"))[1], "ended"))
    """
    assert run(program) == ["child", " ended"]


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE"])
def test_limits_that_may_be_raised_are_raised_in_the_child_alone(limit):
    program = f"""
    _, hard = resource.getrlimit(resource.{limit})
    child = ChildProcess()
    resource.setrlimit(resource.{limit}, (0, hard))
    show = lambda: os.write(1, b"%d " % (resource.getrlimit(resource.{limit})[0] == hard))
    assert is_limited()
    assert child.run(show)[1] == ""
    show()
    """
    assert run(program) == ["1 0 "]


def test_signals_meant_for_the_parent_are_left_to_it():
    assert ChildProcess().run(lambda: os.kill(os.getpid(), signal.SIGTERM))[1] == ""


def test_without_a_limit_there_is_none():
    unlimited = ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_CPU", "RLIMIT_FSIZE")
    if any(resource.getrlimit(getattr(resource, n))[0] >= 0 for n in unlimited):
        pytest.skip("the tests run under a limit")
    assert not child_process.is_limited()
