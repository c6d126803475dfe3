"""Blocks of memory that have something in common: how many there are and what they take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

ALLOCATED_BEFORE = "allocated before"
NOT_RECORDED = "allocated while not recorded"

_FOREIGN = ("torch/", "<built-in", "<method", "nn.Module: ")


@dataclass(frozen=True)
class PeakGroup:
    """Blocks that have something in common.

    Attributes:
        name: what they have in common; for stacks the frames from the outermost inwards, with
            ``;`` between them.
        size_bytes: in all.
        blocks: how many.
        before_bytes: of ``size_bytes``, allocated before the recording.
    """

    name: str
    size_bytes: int
    blocks: int
    before_bytes: int


def group_blocks(
    names: Iterable[str],
    size_bytes: npt.NDArray[np.int64],
    is_before: npt.NDArray[np.bool_],
    unseen_bytes: int,
) -> tuple[PeakGroup, ...]:
    """Blocks of equal names as one group each, largest first; arrays have shape (blocks,).

    Args:
        names: of the blocks.
        size_bytes: of each.
        is_before: whether each was allocated before the recording.
        unseen_bytes: allocated before it too, in blocks that no event tells of.
    """
    totals: dict[str, list[int]] = {}
    for name, bytes_, before in zip(names, size_bytes.tolist(), is_before.tolist(), strict=True):
        group = totals.setdefault(name, [0, 0, 0])
        group[0] += bytes_
        group[1] += 1
        group[2] += bytes_ if before else 0
    if unseen_bytes:
        group = totals.setdefault(ALLOCATED_BEFORE, [0, 0, 0])
        group[0] += unseen_bytes
        group[2] += unseen_bytes
    return _ranked(totals)


def by_function(stacks: Iterable[PeakGroup]) -> tuple[PeakGroup, ...]:
    """Stacks that lead to the same function of the program as one group each, largest first."""
    totals: dict[str, list[int]] = {}
    for stack in stacks:
        group = totals.setdefault(_own_frame(stack.name.split(";")), [0, 0, 0])
        group[0] += stack.size_bytes
        group[1] += stack.blocks
        group[2] += stack.before_bytes
    return _ranked(totals)


def _ranked(totals: dict[str, list[int]]) -> tuple[PeakGroup, ...]:
    ranked = sorted(totals.items(), key=lambda item: -item[1][0])
    return tuple(PeakGroup(name, *numbers) for name, numbers in ranked)


def _own_frame(frames: list[str]) -> str:
    """The innermost frame that is not torch's own, nor a function of C."""
    own = [frame for frame in frames if not frame.startswith(_FOREIGN) and "/torch/" not in frame]
    return own[-1] if own else frames[-1]
