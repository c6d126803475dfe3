"""Annotations: nested, left open, ended late, elsewhere or by an exception."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

import opscope
from torture.acts import Player, act, heard
from torture.invariants import FAST
from torture.primitives import Broken


def _make(player: Player, name: str) -> Any:
    makers = (
        opscope.record_function,
        opscope.record_function,
        torch.profiler.record_function,
    )
    return player.random.choice(makers)(name)


def _enter(player: Player, span: Any, name: str) -> Any:
    player.program.do(span.__enter__, [("annotation", name)])
    return span


def _leave(player: Player, span: Any) -> None:
    player.program.do(lambda: span.__exit__(None, None, None))


@act(16)
def annotate(player: Player) -> None:
    name = player.name(f"at depth {player.depth}")
    span = _enter(player, _make(player, name), name)
    try:
        player.some_acts()
    finally:
        _leave(player, span)


@act(3)
def fail_in_annotations(player: Player) -> None:
    program, name = player.program, player.name("failing")

    def fail() -> None:
        with opscope.record_function(name), opscope.record_function(name):
            raise Broken

    with contextlib.suppress(Broken):
        program.do(fail, [("annotation", name)] * 2)


@act(2)
def leave_a_span_open(player: Player) -> None:
    name = player.name("left open")
    player.left_open.append(_enter(player, opscope.record_function(name), name))


@act(2)
def leave_it_late(player: Player) -> None:
    if player.left_open:
        place = player.random.randrange(len(player.left_open))
        _leave(player, player.left_open.pop(place))


@act(2)
def hand_a_span_over(player: Player) -> None:
    name = player.name("handed over")
    player.program.shared.spans.append(_enter(player, opscope.record_function(name), name))


@act(2)
def take_a_span_over(player: Player) -> None:
    with contextlib.suppress(IndexError):
        _leave(player, player.program.shared.spans.pop())


@act(1)
def enter_one_twice(player: Player) -> None:
    name = player.name("twice")
    span = opscope.record_function(name)

    def work() -> None:
        with span, span:
            pass

    player.program.do(work, [("annotation", name)] * 2)


@act(2)
def annotate_as_compiled_code_does(player: Player) -> None:
    """Of an operator's kind, as torch's; not left open, because operators end in time."""
    name = player.name(FAST)

    def work() -> None:
        with torch._C._profiler._RecordFunctionFast(name):
            pass

    player.program.do(work, [("operator", name)], needs=(heard(player),))
