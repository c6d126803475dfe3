"""Categories of memory blocks, and their changes over time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from opscope.analysis.memory.categories import MemoryAccounts, memory_accounts
from opscope.analysis.memory.data_flow import SHOWN_CATEGORIES, Action, Category
from opscope.analysis.memory.lives import AllocationLives
from opscope.columns.trace_data import TraceData
from opscope.errors import MissingDependencyError, UsageError
from opscope.timeline.arrays import Flags, Values

ALLOCATED_BEFORE = "allocated before"
NOT_RECORDED = "allocated while not recorded"

_FOREIGN = ("torch/", "<built-in", "<method", "nn.Module: ")


@dataclass(frozen=True)
class PeakGroup:
    """Blocks with a common property.

    Attributes:
        name: common property; for stacks the frames, outermost first, separated by ``;``.
        before_bytes: part of ``size_bytes`` allocated before the recording.
    """

    name: str
    size_bytes: int
    blocks: int
    before_bytes: int


def group_blocks(
    names: Iterable[str],
    size_bytes: Values,
    is_before: Flags,
    unseen_bytes: int,
) -> tuple[PeakGroup, ...]:
    """Group blocks by name, largest group first; arrays have shape (blocks,).

    ``is_before``: allocated before the recording; ``unseen_bytes``: also before, in unknown blocks.
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
    """Merge stacks by the innermost function of the program, largest group first."""
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
    """Innermost frame that is neither torch's nor a C function; else the innermost one."""
    own = [frame for frame in frames if not frame.startswith(_FOREIGN) and "/torch/" not in frame]
    return own[-1] if own else frames[-1]


BEFORE = len(Category)
UNRECORDED = BEFORE + 1
"""Codes besides those of ``Category``, for blocks of unknown use: see :func:`_fill_unseen`."""

NOTHING_KNOWN = (
    "No recorded operator used any of it as a tensor. Record operators with their shapes "
    "(record_shapes=True) while it is used."
)

SHOWN_CODES = (BEFORE, *SHOWN_CATEGORIES, UNRECORDED)


@dataclass(frozen=True)
class LifeCategories:
    """Codes of ``Category``, or ``BEFORE`` or ``UNRECORDED``."""

    first: Values  # of every block at its allocation, shape (blocks,)
    block: Values  # block of every change, shape (changes,); in order of time for each block
    time_ns: Values  # time of every change, Unix nanoseconds
    code: Values  # code after every change
    unknown_because: str  # why no category is known; empty if any is

    def at(self, time_ns: int) -> Values:
        """Codes of all blocks at a moment, shape (blocks,)."""
        code = self.first.copy()
        over = self.time_ns <= time_ns
        code[self.block[over]] = self.code[over]  # for several changes of a block the last counts
        return code


def categories_of_lives(trace: TraceData, lives: AllocationLives) -> LifeCategories:
    """Look up the categories of ``lives``; none without tensors or torch."""
    nothing = np.zeros(0, dtype=np.int64)
    try:
        accounts = memory_accounts(trace)
    except (UsageError, MissingDependencyError) as error:
        unseen = _fill_unseen(np.zeros(len(lives), dtype=np.int64), lives, np.arange(len(lives)))
        return LifeCategories(unseen, nothing, nothing, nothing, str(error))
    block = _block_of_life(accounts, lives)
    life, time_ns, version = _changes(accounts, block)
    first = _category(accounts, block, np.zeros(len(block), dtype=np.int64))
    code = _category(accounts, block[life], version)
    because = "" if first.any() or code.any() else NOTHING_KNOWN
    first, code = _fill_unseen(first, lives, np.arange(len(lives))), _fill_unseen(code, lives, life)
    return LifeCategories(first, life, time_ns, code, because)


def category_text(code: int) -> str:
    """Text of a code: ``optimizer state``."""
    if code >= BEFORE:
        return ALLOCATED_BEFORE if code == BEFORE else NOT_RECORDED
    return Category(code).name.lower().replace("_", " ")


def _fill_unseen(code: Values, lives: AllocationLives, life: Values) -> Values:
    """``code``, with codes for unknown use of blocks whose allocation was not recorded.

    BEFORE: allocated before the recording; UNRECORDED: during it.
    """
    unseen = (code == Category.UNKNOWN) & (lives.allocation[life] < 0)
    return np.where(unseen, np.where(lives.start_ns[life] < 0, BEFORE, UNRECORDED), code)


def _block_of_life(accounts: MemoryAccounts, lives: AllocationLives) -> Values:
    """Row in ``MemoryBlocks`` of each life; -1 for none. Shape (lives,)."""
    identity = accounts.blocks.allocation_id
    if not len(identity):
        return np.full(len(lives), -1, dtype=np.int64)
    order = np.argsort(identity, kind="stable")
    place = np.searchsorted(identity[order], lives.allocation_id, side="right") - 1
    block = order[np.maximum(place, 0)]
    is_known = (place >= 0) & (lives.allocation_id >= 0) & (identity[block] == lives.allocation_id)
    return np.where(is_known, block, -1)


def _category(accounts: MemoryAccounts, block: Values, version: Values) -> Values:
    """Category of a version of each of ``block``; of the last version if there are fewer."""
    offsets, codes = accounts.categories.version_offsets, accounts.categories.of_version
    last = np.append(np.diff(offsets) - 1, 0)[block]
    row = np.where(block >= 0, offsets[block] + np.minimum(version, last), len(codes))
    found: Values = np.append(codes, Category.UNKNOWN)[row].astype(np.int64)
    return found


def _changes(accounts: MemoryAccounts, block_of_life: Values) -> tuple[Values, Values, Values]:
    """Life, time and new version of every change of blocks' contents, by life."""
    line = accounts.timeline
    changed = np.flatnonzero((line.action == Action.INCREMENT_VERSION) & (line.block >= 0))
    changed = changed[np.argsort(line.block[changed], kind="stable")]
    owner, block = line.block[changed], np.maximum(block_of_life, 0)
    begin = np.searchsorted(owner, block, side="left")
    count = np.where(block_of_life >= 0, np.searchsorted(owner, block, side="right") - begin, 0)
    life = np.repeat(np.arange(len(block)), count)
    place = np.arange(len(life)) - np.repeat(np.cumsum(count) - count, count)
    return life, line.time_ns[changed[np.repeat(begin, count) + place]], place + 1
