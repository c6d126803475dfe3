"""The string table of a trace, and the names of a profiler's steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt


class Names:
    """Immutable strings, decoded on access.

    Text is kept as one UTF-8 blob and ``int64`` offsets (the Arrow layout), so a table of a
    million names costs no Python objects until they are read. Bytes that are not UTF-8 are shown
    with replacement characters.
    """

    def __init__(self, offsets: npt.NDArray[np.int64], blob: bytes) -> None:
        """``offsets`` has one more element than there are names; name i is blob[o[i]:o[i+1]]."""
        self.offsets = offsets
        self.blob = blob
        self._decoded: dict[int, str] = {}
        self._all: list[str] | None = None  # once all were iterated
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
        """The names of several tables, one after the other."""
        offsets, blobs, total = [np.zeros(1, dtype=np.int64)], [], 0
        for part in parts:
            offsets.append(part.offsets[1:] + total)
            blobs.append(part.blob)
            total += int(part.offsets[-1])
        return cls(np.concatenate(offsets), b"".join(blobs))

    def followed_by(self, more: Names) -> Names:
        """These names and then others, whose rows begin at ``len(self)``."""
        offsets = np.concatenate([self.offsets, more.offsets[1:] + self.offsets[-1]])
        return Names(offsets, self.blob + more.blob)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"<Names: {len(self):,} texts>"

    def __getitem__(self, index: int) -> str:
        """The text; ``""`` for -1."""
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
            blob, places = self.blob, pairwise(self.offsets.tolist())
            self._all = [blob[begin:end].decode("utf-8", "replace") for begin, end in places]
            self._decoded.clear()
        return iter(self._all)

    def find(self, text: str) -> int:
        """The row of ``text``, or -1 if no event uses it."""
        if self._index is None:
            self._index = {name: i for i, name in reversed(list(enumerate(self)))}
        return self._index.get(text, -1)


STEP_PREFIX = "ProfilerStep#"
"""What the span of a step is called, with its number after it."""

REQUEST_PREFIX = "request: "
"""What the span of a request of a server is called, with the request's name after it."""

_MOST_DIGITS = 9
"""Of the number of a step: one of 32 bits."""


def step_number(name: str) -> int | None:
    """N of ``ProfilerStep#N``; None for any other name."""
    number = name[len(STEP_PREFIX) :]
    is_number = name.startswith(STEP_PREFIX) and number.isascii() and number.isdigit()
    return int(number) if is_number and len(number) <= _MOST_DIGITS else None
