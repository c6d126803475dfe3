"""The last action runs once, whatever ends the process, and does not change how it ends."""

import signal

import pytest

from support.processes import run_python

START = """
import atexit, os, signal, sys, threading
from opscope.cli.session.termination import LastAction
last = LastAction(lambda: print("last", flush=True))
def send(number):
    os.kill(os.getpid(), number)
"""


def restore_hang_up():
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it


def run(program):
    done = run_python("-c", START + program, preexec_fn=restore_hang_up)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(
    ("program", "code"),
    [("print('end'); sys.exit(3)", 3), ("print('end'); 1 / 0", 1)],
)
def test_runs_at_a_normal_end(program, code):
    assert run(program) == (code, ["end", "last"])


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_runs_before_a_fatal_signal_kills(name):
    number = getattr(signal, name)
    assert run(f"send(signal.{name}); print('not reached')") == (-number, ["last"])


def test_a_signal_the_program_handles_is_its_own():
    program = """
signal.signal(signal.SIGTERM, lambda *_: print("handled"))
send(signal.SIGTERM)
print("goes on")
"""
    assert run(program) == (0, ["handled", "goes on", "last"])


def test_a_signal_that_was_ignored_before_stays_ignored():
    program = """
signal.signal(signal.SIGTERM, signal.SIG_DFL)
last.cancel()
signal.signal(signal.SIGHUP, signal.SIG_IGN)
LastAction(lambda: print("second"))
send(signal.SIGHUP)
print("goes on")
"""
    assert run(program) == (0, ["goes on", "second"])


def test_a_signal_during_the_last_action_waits_for_its_end():
    program = """
def slow():
    print("begin"); send(signal.SIGTERM); print("end", flush=True)
last.cancel()
signal.signal(signal.SIGTERM, signal.SIG_DFL)
slow = LastAction(slow)
"""
    assert run(program) == (-signal.SIGTERM, ["begin", "end"])


def test_children_have_no_last_action_and_the_default_signals():
    program = """
ends = os.fork()
if ends == 0:
    sys.exit(5)
killed = os.fork()
if killed == 0:
    send(signal.SIGTERM)
    os._exit(0)
print(os.waitpid(ends, 0)[1] >> 8, os.WTERMSIG(os.waitpid(killed, 0)[1]) == signal.SIGTERM)
"""
    assert run(program) == (0, ["5 True", "last"])


def test_an_interrupt_still_kills_whatever_the_action_executes():
    program = """
last.cancel()
def action():
    exec("print('action', flush=True)")
last = LastAction(action)
try:
    raise KeyboardInterrupt
except KeyboardInterrupt:
    last.after_interrupt()
    raise
"""
    assert run(program) == (-signal.SIGINT, ["action"])


def test_one_interrupt_while_the_action_goes_on_is_not_heeded():
    program = """
last.cancel()
def action():
    send(signal.SIGINT)
    print("still there", flush=True)
    try:
        send(signal.SIGINT)
    except KeyboardInterrupt:
        print("given up", flush=True)
last = LastAction(action)
"""
    assert run(program) == (0, ["still there", "given up"])


def test_an_interrupt_at_any_moment_of_the_end_does_not_keep_the_action_from_running():
    program = """
from tests.support.interruptions import interrupt_at
last.cancel()
atexit._clear()
done, place, has_come = [], 0, True
while has_come:
    place += 1
    LastAction(lambda: done.append(place))
    has_come = interrupt_at(
        place, atexit._run_exitfuncs, lambda: signal.raise_signal(signal.SIGINT)
    )
print(place > 100, done == list(range(1, place + 1)), flush=True)
"""
    assert run(program) == (0, ["True True"])


WAITS = """
from opscope.cli.session.termination import interrupts_wait
try:
    with interrupts_wait():
        send(signal.SIGINT)
        print("goes on")
        again
        print("to its end")
except KeyboardInterrupt:
    print("interrupted")
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


@pytest.mark.parametrize(("again", "until"), [("", ["to its end"]), ("send(signal.SIGINT)", [])])
def test_what_is_written_in_the_middle_is_interrupted_by_the_second_interruption(again, until):
    outcome = ["goes on", *until, "interrupted", "True", "last"]
    assert run(WAITS.replace("again", again)) == (0, outcome)


def test_nor_where_the_program_handles_interruptions_itself():
    program = """
from opscope.cli.session.termination import interrupts_wait
signal.signal(signal.SIGINT, lambda *_: print("handled"))
with interrupts_wait():
    send(signal.SIGINT)
    print("goes on")
threading.Thread(target=lambda: interrupts_wait().__enter__()).start()
"""
    assert run(program) == (0, ["handled", "goes on", "last"])


def test_what_another_thread_unwinds_leaves_signals_alone():
    program = """
from opscope.cli.session.termination import unwound_when_ended
last.cancel()
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
def inside():
    with unwound_when_ended():
        print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, flush=True)
thread = threading.Thread(target=inside)
thread.start()
thread.join()
"""
    assert run(program) == (0, ["True"])
