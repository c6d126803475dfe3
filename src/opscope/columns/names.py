"""The string table of a trace, and prefixes of names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt


class Names:
    """Immutable strings, decoded on access.

    Text is one UTF-8 blob with ``int64`` offsets (the Arrow layout), so a table of a million names
    has no Python objects until they are read. Bytes that are not UTF-8 become U+FFFD.
    """

    def __init__(self, offsets: npt.NDArray[np.int64], blob: bytes) -> None:
        """``offsets`` has one more element than there are names; name i is blob[o[i]:o[i+1]]."""
        self.offsets = offsets
        self.blob = blob
        self._decoded: dict[int, str] = {}
        self._all: list[str] | None = None  # after the first iteration
        self._index: dict[str, int] | None = None

    @classmethod
    def from_strings(cls, strings: Iterable[str]) -> Names:
        """Build the table from Python strings, in order."""
        encoded = [s.encode("utf-8", "surrogatepass") for s in strings]
        offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(e) for e in encoded], out=offsets[1:])
        return cls(offsets, b"".join(encoded))

    @classmethod
    def joined(cls, parts: Iterable[Names]) -> Names:
        """Names of several tables, in order."""
        offsets, blobs, total = [np.zeros(1, dtype=np.int64)], [], 0
        for part in parts:
            offsets.append(part.offsets[1:] + total)
            blobs.append(part.blob)
            total += int(part.offsets[-1])
        return cls(np.concatenate(offsets), b"".join(blobs))

    def followed_by(self, others: Names) -> Names:
        """These names, then ``others``, whose rows begin at ``len(self)``."""
        offsets = np.concatenate([self.offsets, others.offsets[1:] + self.offsets[-1]])
        return Names(offsets, self.blob + others.blob)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"<Names: {len(self):,} texts>"

    def __getitem__(self, index: int) -> str:
        """Text of a row; ``""`` for -1."""
        index = int(index)
        if index < 0:
            return ""
        if self._all is not None:
            return self._all[index]
        text = self._decoded.get(index)
        if text is None:
            raw = self.blob[self.offsets[index] : self.offsets[index + 1]]
            text = self._decoded[index] = raw.decode("utf-8", "replace")
        return text

    def __iter__(self) -> Iterator[str]:
        if self._all is None:
            blob, ranges = self.blob, pairwise(self.offsets.tolist())
            self._all = [blob[begin:end].decode("utf-8", "replace") for begin, end in ranges]
            self._decoded.clear()
        return iter(self._all)

    def find(self, text: str) -> int:
        """First row of ``text``, or -1 if it is not in the table."""
        if self._index is None:
            self._index = {name: i for i, name in reversed(list(enumerate(self)))}
        return self._index.get(text, -1)


STEP_PREFIX = "ProfilerStep#"
"""Prefix of the span of a step, before its number."""

ENGINE_PREFIX = "autograd::engine::evaluate_function: "
"""Prefix of the autograd engine's span around a node of a backward pass, before the node's name."""

REQUEST_PREFIX = "request: "  # prefix of the span of a server's request, before the request's name
_MAX_DIGITS = 9  # maximum digits of a step number, which fits in 32 bits


def step_number(name: str) -> int | None:
    """N of ``ProfilerStep#N``; None for any other name."""
    number = name[len(STEP_PREFIX) :]
    is_number = name.startswith(STEP_PREFIX) and number.isascii() and number.isdigit()
    return int(number) if is_number and len(number) <= _MAX_DIGITS else None
