"""Python functions that write down when they run; every actor has its own, told apart by name.

They are made anew for every program, so that each is a code object that no recording has seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_SOURCE = """
def own_call_{n}(deed, now, body):
    deed.begun = now()
    try:
        return body()
    finally:
        deed.ending = now()


def own_recursion_{n}(deed, now, again, levels, body):
    deed.begun = now()
    try:
        return again(levels - 1) if levels else body()
    finally:
        deed.ending = now()


def own_raise_{n}(deed, now, error):
    deed.begun = deed.ending = now()
    raise error


def own_generator_{n}(turn, now, bodies):
    try:
        for body in bodies:
            turn[0].begun = now()
            body()
            turn[0].ending = now()
            yield body
        turn[0].begun = now()
    finally:
        turn[0].ending = now()


async def own_coroutine_{n}(deed, now, body):
    deed.begun = now()
    try:
        return body()
    finally:
        deed.ending = now()


class Collected_{n}:
    def __init__(self, body):
        self.body = body

    def __del__(self):
        self.body()
"""

PREFIX = "own_"


def make_functions(number: int) -> dict[str, Callable[..., Any]]:
    """The functions of one actor, by their name without its number."""
    namespace: dict[str, Any] = {}
    exec(compile(_SOURCE.format(n=number), f"<actor {number}>", "exec"), namespace)
    suffix = f"_{number}"
    return {
        name.removesuffix(suffix).removeprefix(PREFIX): value
        for name, value in namespace.items()
        if name.endswith(suffix)
    }
