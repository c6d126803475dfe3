"""Compressed columns that a browser unpacks in milliseconds: byte planes, deflate, base64.

A column of integers is stored as its lowest bytes, then its second-lowest bytes, and so on, without
the highest planes that are zero. Deflate compresses planes far better than rows.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.base.printable import printable
from opscope.timeline.arrays import Values

LONGEST = 1000


def shown(text: str) -> str:
    """``text``, shortened to :data:`LONGEST` characters and with its original length.

    Invisible characters, such as those that change the direction of writing, are escaped.
    """
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}… ({len(text):,} characters)"
    return printable(text, keep="\n\t")


COMPRESSION_LEVEL = 4
_PLANES = 8


@dataclass
class Packer:
    """Collects and packs columns."""

    # name, number of values and number of planes of each column, in the order of storage
    directory: list[dict[str, Any]] = field(default_factory=list)
    _planes: list[bytes] = field(default_factory=list)

    def add(self, name: str, values: npt.NDArray[Any]) -> None:
        """Add a column of non-negative integers."""
        as_bytes = np.ascontiguousarray(values, dtype="<u8").view(np.uint8).reshape(-1, _PLANES)
        largest = int(values.max()) if len(values) else 0
        planes = (largest.bit_length() + 7) // 8
        self.directory.append({"name": name, "count": len(values), "planes": planes})
        for plane in range(planes):
            self._planes.append(np.ascontiguousarray(as_bytes[:, plane]).tobytes())

    def finish(self) -> str:
        """All columns as base64 text of one zlib stream."""
        deflate = zlib.compressobj(COMPRESSION_LEVEL)
        parts = [deflate.compress(plane) for plane in self._planes]
        parts.append(deflate.flush())
        return base64.b64encode(b"".join(parts)).decode("ascii")


def differences(values: Values, starts: Values) -> Any:
    """Each value minus the one before it; the first value and those at ``starts`` are unchanged."""
    result = np.diff(values, prepend=0)
    result[starts] = values[starts]
    return result
