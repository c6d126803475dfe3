"""Python calls: recursion, exceptions, generators left half-run, coroutines, C functions."""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import Any

from torture.acts import Player, act
from torture.expectations import COUNTED_C
from torture.history import Deed
from torture.primitives import Broken

DEEPEST_RECURSION = 400


@act(4)
def call(player: Player) -> None:
    player.program.call(player.own["call"], player.some_acts)


@act(3)
def recurse(player: Player) -> None:
    deepest = DEEPEST_RECURSION if player.random.random() < 0.05 else 15
    function = player.own["recursion"]

    def again(levels: int) -> Any:
        return player.program.call(function, again, levels, player.operate)

    again(player.random.randrange(deepest))


@act(3)
def raise_through_calls(player: Player) -> None:
    program = player.program

    def inner() -> None:
        program.call(player.own["raise"], Broken())

    with contextlib.suppress(Broken):
        program.call(player.own["call"], lambda: program.call(player.own["call"], inner))


@act(3)
def raise_in_a_c_function(player: Player) -> None:
    def key(item: int) -> int:
        player.operate()
        raise Broken

    with contextlib.suppress(Broken):
        sorted([2, 1], key=key)


@act(3)
def call_c(player: Player) -> None:
    player.program.do(lambda: math.hypot(3, 4), [("c", COUNTED_C[0])])


@act(5)
def resume_a_generator(player: Player) -> None:
    """A new one or an old one; perhaps closed, thrown into or let go of where it stands."""
    program = player.program
    if not player.generators or player.random.random() < 0.4:
        turn: list[Deed] = []
        function = player.own["generator"]
        generator = function(turn, program.history.now, [player.operate] * 3)
        player.generators.append((generator, turn))
    place = player.random.randrange(len(player.generators))
    generator, turn = player.generators[place]
    roll = player.random.random()
    if roll < 0.6:
        player.take_turn(turn, lambda: next(generator, None))
    else:
        del player.generators[place]
        if roll < 0.75:
            player.take_turn(turn, generator.close)
        elif roll < 0.9:
            with contextlib.suppress(Broken):
                player.take_turn(turn, lambda: generator.throw(Broken()))
        else:
            holder = [generator]
            del generator
            player.take_turn(turn, holder.clear)


@act(1)
def await_something(player: Player) -> None:
    program, now = player.program, player.program.history.now
    deed = program.begin(calls=[("python", player.own["coroutine"].__name__)])
    coroutine = player.own["coroutine"](deed, now, player.operate)
    try:
        with contextlib.suppress(StopIteration):
            coroutine.send(None)
    finally:
        deed.after = now()
    if player.random.random() < 0.1:
        asyncio.run(_wait(program, player))


async def _wait(program: Any, player: Player) -> None:
    await asyncio.sleep(0)
    player.operate()
