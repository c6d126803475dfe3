"""How many bytes a Parquet file says it holds, read from its footer alone.

Arrow would tell, but ends the process when a damaged footer contradicts itself (its own reading of
such a file ends in an error, as it should).
"""

from __future__ import annotations

import os
from typing import BinaryIO

from opscope import _native

_MAGIC = b"PAR1"
_TAIL_BYTES = 8  # length of the footer and the magic
_MOST_BYTES = 1 << 26


def unpacked_bytes(file: BinaryIO) -> int:
    """What all columns take at most in memory: eight bytes a value, or their pages if larger.

    Raises:
        ValueError: there is no footer, or it is damaged.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _TAIL_BYTES, 0))
    tail = file.read(_TAIL_BYTES)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or not 0 < length <= min(size - _TAIL_BYTES, _MOST_BYTES):
        raise ValueError("it is no Parquet file, or its end is missing")
    file.seek(size - _TAIL_BYTES - length)
    footer = file.read(length)
    file.seek(0)
    return _native.unpacked_bytes(footer)
