"""Signals, at any bytecode of the main thread: handlers that record, that look, and that raise."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

import torch

import opscope
from torture.acts import Player, act
from torture.history import State
from torture.program import Interruption
from torture.windows import Window, choose_options, open_window

LONGEST_S = 3e-3


def is_main() -> bool:
    """Whether this thread is the one that runs signal handlers."""
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def _past_the_gate(player: Player) -> Iterator[None]:
    """For code that may have been called, or may be left, in the middle of the gate."""
    depth = player.actor.depth
    player.actor.depth += 1
    try:
        yield
    finally:
        player.actor.depth = depth


def _interrupt(player: Player, work: Callable[[], object]) -> None:
    """Do something that a signal raises in the middle of, or does not."""
    due = [True]

    def raise_once(*_: object) -> None:
        if due:
            due.clear()
            raise Interruption

    before = signal.signal(signal.SIGALRM, raise_once)
    depth = player.depth
    try:
        with _past_the_gate(player):
            signal.setitimer(signal.ITIMER_REAL, player.random.random() * LONGEST_S + 1e-6)
            work()
            due.clear()
    except Interruption:
        player.depth = depth
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        torch.set_grad_enabled(True)  # torch leaves it off where no_grad's own end is interrupted


def _acts_that_may_be_cut(player: Player) -> None:
    for _ in range(player.random.randrange(1, 12)):
        roll = player.random.random()
        name = player.name("interrupted")
        if roll < 0.5:
            player.operate()
        elif roll < 0.75:
            player.program.call(player.own["call"], player.operate)
        else:
            span = opscope.record_function(name)
            player.program.do(span.__enter__, [("annotation", name)])
            player.operate()
            player.program.do(lambda span=span: span.__exit__(None, None, None))


@act(4)
def be_interrupted(player: Player) -> None:
    if is_main():
        _interrupt(player, lambda: _acts_that_may_be_cut(player))


@act(3)
def be_interrupted_while_windows_open_and_close(player: Player) -> None:
    """Whatever the signal hits, the window is open and can be stopped, or there is none."""
    program = player.program
    if not is_main():
        return
    options = choose_options(player.random)
    window = Window(program, opscope.profile(**options), options)
    window.opening()

    def start_and_stop() -> None:
        window.profile.start()
        player.operate()
        window.profile.stop()

    _interrupt(player, start_and_stop)
    window.profile.stop()
    window.set(State.OVER)
    window.may_be_nothing = True


@act(3)
def be_called_by_signals(player: Player) -> None:
    """Some acts while signals come in, whose handler runs operators, opens and closes windows."""
    if not is_main():
        return
    program, inside = player.program, []

    def handle(*_: object) -> None:
        if inside:
            return
        inside.append(True)
        try:
            with _past_the_gate(player), program.called_from_anywhere():
                _handle(player)
        finally:
            inside.clear()

    before = signal.signal(signal.SIGUSR1, handle)
    ended = threading.Event()

    def send() -> None:
        for _ in range(20):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
            if ended.wait(1e-3):
                return

    sender = threading.Thread(target=send)
    sender.start()
    try:
        player.some_acts(6)
    finally:
        ended.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)
    assert program.history.actor is player.actor


def _handle(player: Player) -> None:
    program, roll = player.program, player.random.random()
    if roll < 0.4:
        with torch.enable_grad():  # which is off in a hook of a backward pass
            player.operate()
    elif roll < 0.6:
        name = player.name("handled")
        program.do(opscope.record_function(name).__enter__, [("annotation", name)])
    elif roll < 0.8:
        window = open_window(player)
        if window is not None:
            program.shared.windows.append(window)
    elif roll < 0.9 and program.shared.windows:
        with contextlib.suppress(IndexError):
            program.shared.windows.pop().stop(together=True)
    else:
        over = [w for w in program.history.windows if w.is_over and not w.is_torchs]
        if over:
            player.random.choice(over).look()
