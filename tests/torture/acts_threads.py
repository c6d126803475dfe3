"""Threads that begin and end, and work that torch puts on threads of its own."""

from __future__ import annotations

import _thread
import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch

from torture.acts import Player, act
from torture.program import MOST_ACTORS, Program


@act(2)
def start_a_thread(player: Player) -> None:
    program = player.program
    if len(program.history.actors) >= MOST_ACTORS:
        return
    seed, gated = f"{player.random.random()}", player.random.random() < 0.7
    acts = player.random.randrange(1, 8)
    program.start_thread(lambda: Player(program, seed).play(acts), gated=gated)


@act(2)
def start_brief_threads(player: Player) -> None:
    """Threads that do one thing; some that the threading module, or Python, knows nothing of."""
    program = player.program
    for _ in range(player.random.randrange(1, 4)):
        primitive = player.random.choice(player.primitives)
        start = player.random.choice((Program.start_thread, start_raw_thread, start_c_thread))
        start(program, partial(program.run_primitive, primitive))


def start_raw_thread(program: Program, body: Callable[[], None]) -> None:
    """Without the threading module."""
    actor, ended = program.history.new_actor(raw=True), threading.Semaphore(0)

    def run() -> None:
        program.as_actor(actor, body)
        ended.release()

    program.waits.append(ended.acquire)
    _thread.start_new_thread(run, ())


_LIBC = ctypes.CDLL(None)
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def start_c_thread(program: Program, body: Callable[[], None]) -> None:
    """By the C library: Python meets the thread when it first calls back."""
    actor, handle = program.history.new_actor(raw=True), ctypes.c_ulong()
    entry = _ENTRY(lambda _: program.as_actor(actor, body))
    assert _LIBC.pthread_create(ctypes.byref(handle), None, entry, None) == 0
    # The callback lives for as long as somebody may wait for the thread.
    program.waits.append(lambda entry=entry: _LIBC.pthread_join(handle, None))


@act(1)
def use_a_pool(player: Player) -> None:
    if player.actor.depth:  # its threads may have to wait for the gate that this one holds
        return
    program = player.program
    primitives = [player.random.choice(player.primitives) for _ in range(6)]

    def begin() -> None:
        program.history.begin(program.history.new_actor())

    with ThreadPoolExecutor(2, initializer=begin) as pool:
        for future in [pool.submit(program.run_primitive, name) for name in primitives]:
            future.result()


_argument = torch.full((1,), 1.0)


@torch.jit.script
def _cosine(x: torch.Tensor) -> torch.Tensor:
    return torch.cos(x)


@torch.jit.script
def _in_two_forks(x: torch.Tensor) -> None:
    first = torch.jit.fork(_cosine, x)
    second = torch.jit.fork(_cosine, x)
    torch.jit.wait(first)
    torch.jit.wait(second)


@act(1)
def fork_in_torchscript(player: Player) -> None:
    program = player.program
    program.do_elsewhere(lambda: _in_two_forks(_argument), [("operator", "aten::cos")] * 2)


class _Deep(torch.autograd.Function):
    """Whose backward runs another one: beyond 60 levels, on threads of torch's own."""

    @staticmethod
    def forward(context, x, levels):
        context.levels = levels
        return x.view(-1)

    @staticmethod
    def backward(context, gradient):
        if context.levels:
            with torch.enable_grad():
                x = _argument.detach().requires_grad_()
                _Deep.apply(x, context.levels - 1).backward()
        return gradient.sinh(), None


@act(1)
def run_backward_in_backward(player: Player) -> None:
    program = player.program
    levels = player.random.choice((2, 70))

    def work() -> None:
        _Deep.apply(_argument.detach().requires_grad_(), levels).backward()

    program.do_elsewhere(work, [("operator", "aten::sinh")] * (levels + 1))
