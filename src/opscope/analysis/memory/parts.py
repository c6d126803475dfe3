"""What memory in use consists of, moment by moment, from blocks and what each counts as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.memory.groups import ALLOCATED_BEFORE
from opscope.analysis.memory.life_categories import LifeCategories
from opscope.analysis.memory.peak_moment import PeakMoment

Values = npt.NDArray[np.int64]


@dataclass(frozen=True)
class MemoryParts:
    """What the bytes in use consist of.

    Attributes:
        names: of the parts that ever hold anything.
        size_bytes: shape (samples, parts); rows add up to what was in use.
    """

    names: list[str]
    size_bytes: Values


@dataclass(frozen=True)
class _Changes:
    """What is added to a part from a row of ``PeakMoment.in_use_at`` on; shape (changes,) each."""

    row: Values
    code: Values
    size_bytes: Values


def parts_over_time(
    peak: PeakMoment,
    samples: Values,
    names: Mapping[int, str],
    code: Values,
    changing: LifeCategories | None = None,
) -> MemoryParts:
    """Add up the blocks of a device by what they count as.

    What is in use beyond these blocks was allocated before the recording, so ``names`` has that.

    Args:
        peak: of the device.
        samples: rows of ``peak.in_use_at`` to tell of.
        names: of the parts by their codes, in the order to show them.
        code: of every block from its allocation on, shape (blocks,).
        changing: when blocks come to count as something else.
    """
    changes = _changes(peak, code, changing)
    columns = {name: _total(changes, number, peak, samples) for number, name in names.items()}
    unseen = peak.in_use_at[samples] - np.sum(list(columns.values()), axis=0)
    columns[ALLOCATED_BEFORE] += unseen
    held = {name: column for name, column in columns.items() if column.any()}
    nothing = np.zeros((len(samples), 0), dtype=np.int64)
    return MemoryParts(list(held), np.column_stack(list(held.values())) if held else nothing)


def _total(changes: _Changes, code: int, peak: PeakMoment, samples: Values) -> Values:
    chosen = changes.code == code
    size = len(peak.in_use_at) + 1
    # Sums of bytes are whole numbers far below 2**53, which floats hold exactly.
    added = np.bincount(changes.row[chosen], changes.size_bytes[chosen], minlength=size)
    total: Values = np.cumsum(added)[samples].astype(np.int64)
    return total


def _changes(peak: PeakMoment, code: Values, changing: LifeCategories | None) -> _Changes:
    size, most = peak.lives.size_bytes, len(peak.in_use_at)
    begin, end = np.minimum(peak.begin + 1, most), np.minimum(peak.end + 1, most)
    last = code
    parts = [(begin, code, size)]
    if changing is not None and len(changing.block):
        block = changing.block
        before = _codes_before(code, changing)
        # A change of category takes effect at the next row, while its block is in use.
        row = np.searchsorted(peak.row_time_ns[1:], changing.time_ns, side="left") + 1
        row = np.clip(row, begin[block], np.maximum(begin, end)[block])
        parts += [(row, before, -size[block]), (row, changing.code, size[block])]
        last = code.copy()
        last[block] = changing.code
    parts.append((end, last, -size))
    return _Changes(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _codes_before(code: Values, changing: LifeCategories) -> Values:
    """What each changed block counted as until then; changes of a block are in order of time."""
    block = changing.block
    follows = np.append(False, block[1:] == block[:-1])
    earlier = np.append(0, changing.code[:-1])
    return np.where(follows, earlier, code[block])
