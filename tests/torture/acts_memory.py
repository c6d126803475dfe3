"""Tensors that live on, pass between threads and die in cycles; collections, finalizers."""

from __future__ import annotations

import gc
import threading
from dataclasses import dataclass

import torch

from torture.acts import Player, act, heard
from torture.history import Deed


@dataclass
class Kept:
    """A tensor for whoever comes by: its size and who made it when."""

    holder: list[torch.Tensor]
    size: int
    made: Deed
    unsure: bool = False  # whether it is still there


class _Knot:
    """Holds itself, and a tensor."""

    def __init__(self, holder: list[torch.Tensor]) -> None:
        self.tensor, self.itself = holder.pop(), self


class _Finalizer:
    """Does something when it is collected."""

    def __init__(self, player: Player) -> None:
        self.player, self.itself = player, self

    def __del__(self) -> None:
        program = self.player.program
        primitive = self.player.random.choice(("makes", "runs backward", "calls modules"))
        with program.called_from_anywhere():
            program.run_primitive(primitive)


def _make(player: Player) -> Kept:
    size = player.program.history.new_size()
    effects = [("operator", f"aten::{name}") for name in ("full", "empty", "fill_")]
    effects.append(("allocation", 4 * size))
    holder: list[torch.Tensor] = []
    player.program.do(lambda: holder.append(torch.full((size,), 1.0)), effects)
    return Kept(holder, size, player.actor.deeds[-1])


@act(3)
def keep_a_tensor(player: Player) -> None:
    player.program.shared.kept.append(_make(player))


@act(3)
def let_go_of_a_tensor(player: Player) -> None:
    """Perhaps of another thread's; that it is freed is seen where its allocation was."""
    try:
        kept = player.program.shared.kept.pop()
    except IndexError:
        return
    # Without an operator the thread may be one that torch tells nobody of, which the ledger says.
    needs = (kept.made, heard(player)) if player.random.random() < 0.5 else (kept.made,)
    player.program.do(kept.holder.clear, [("free", 4 * kept.size)], needs=needs)


@act(3)
def tie_a_knot(player: Player) -> None:
    if player.actor.depth:  # a collection might find it before it is known
        return
    kept, shared = _make(player), player.program.shared

    def tie() -> None:
        with shared.tying:
            shared.knots.append(kept)
            _Knot(kept.holder)

    player.program.do(tie)


@act(4)
def collect(player: Player) -> None:
    """Alone, so that it is known what a whole one finds; a partial one finds who knows what."""
    program = player.program
    generation = player.random.choice((0, 1, 2, 2))
    with program.gate.alone(player.actor), program.shared.tying:
        known = heard(player)
        found, program.shared.knots = program.shared.knots, []
        deeds = [program.begin([("free", 4 * k.size)], needs=(k.made, known)) for k in found]
        deeds.append(program.begin([("gc", f"gc: generation {generation}")]))
        has_run = _collect(generation)
        for deed in deeds:
            deed.after = program.history.now()
        for knot, deed in zip(found, deeds, strict=False):
            deed.cut = knot.unsure or generation < 2 or not has_run
        deeds[-1].cut = not has_run
        if deeds[-1].cut or generation < 2:
            for knot in found:
                knot.unsure = True
            program.shared.knots += found


def _collect(generation: int) -> bool:
    """Collect; Python does not where another thread is at it."""
    here, seen = threading.get_ident(), []
    notice = lambda phase, _: seen.append(threading.get_ident())  # noqa: E731
    gc.callbacks.append(notice)
    gc.collect(generation)
    gc.callbacks.remove(notice)
    return here in seen


@act(1)
def leave_a_finalizer(player: Player) -> None:
    _Finalizer(player)
