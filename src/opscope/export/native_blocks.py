"""Files that native code writes block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from opscope.base.progress import tell


class BlockWriter(Protocol):
    """A writer of ``_native``."""

    @property
    def rows_written(self) -> int:
        """How many rows are in the blocks so far."""

    def next_block(self, size: int) -> npt.NDArray[np.uint8] | None:
        """The next block, a little longer than ``size`` bytes; None after the last."""


def blocks_of(writer: BlockWriter, size: int, rows: int) -> Iterator[npt.NDArray[np.uint8]]:
    """All blocks of ``writer``, which has ``rows`` to write, telling how far it is."""
    while (block := writer.next_block(size)) is not None:
        yield block
        tell(writer.rows_written, rows)
