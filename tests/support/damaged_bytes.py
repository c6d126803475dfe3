"""What is in a file, damaged at random: bytes, words, blocks."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

_BLOCK = 64 * 1024
_WORDS = (
    0, 1, 2, 7, 255, 4096, 100_000, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1, 2**33, 2**60, 2**62,
    2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1,
)  # fmt: skip


def damage_bytes(draw: random.Random, content: bytearray) -> str:
    """Damage what is there, where it is; returns what was done."""
    times = draw.choice((1, 1, 1, 2, 4))
    return "; ".join(draw.choice(_WAYS)(draw, content) for _ in range(times))


def _place(draw: random.Random, content: bytearray, size: int) -> int:
    """Where something is: most of a file is room that nothing was written to."""
    if len(content) <= size:
        return 0
    if draw.random() < 0.2:  # the first bytes of a block say what it is
        blocks = max(len(content) // _BLOCK, 1)
        return min(draw.randrange(blocks) * _BLOCK + draw.randrange(8) * 8, len(content) - size)
    for _ in range(200):
        at = draw.randrange(len(content) - size) // size * size
        if any(content[at : at + size]):
            return at
    return at


def _flip(draw: random.Random, content: bytearray) -> str:
    at = _place(draw, content, 1)
    if content:
        content[at] ^= draw.randrange(1, 256)
    return f"byte {at}"


def _word(draw: random.Random, content: bytearray) -> str:
    size = draw.choice((4, 8))
    at = _place(draw, content, size)
    if len(content) < size:
        return "nothing"
    old = int.from_bytes(content[at : at + size], "little")
    other = _place(draw, content, size)
    new = draw.choice(
        (
            draw.choice(_WORDS),
            old + draw.choice((-8, -1, 1, 8)),
            old ^ 1 << draw.randrange(size * 8),
            int.from_bytes(content[other : other + size], "little"),
        )
    )
    content[at : at + size] = struct.pack("<Q", new % 2**64)[:size]
    return f"{size} bytes at {at}: {old} -> {new}"


def _cut(draw: random.Random, content: bytearray) -> str:
    at = draw.randrange(len(content) + 1)
    del content[at:]
    return f"cut at {at}"


def _twice(draw: random.Random, content: bytearray) -> str:
    size = draw.choice((8, 48, 4096, _BLOCK))
    begin = draw.randrange(len(content) // size + 1) * size
    at = draw.randrange(len(content) // size + 1) * size
    content[at:at] = content[begin : begin + size]
    return f"{size} bytes of {begin} also at {at}"


def _swapped(draw: random.Random, content: bytearray) -> str:
    size = draw.choice((8, 48, _BLOCK))
    if len(content) < 2 * size:
        return "nothing"
    one, other = sorted(draw.sample(range(len(content) // size), 2))
    a, b = (slice(i * size, (i + 1) * size) for i in (one, other))
    content[a], content[b] = content[b], content[a]
    return f"{size} bytes of {one * size} and {other * size} exchanged"


def _zeros(draw: random.Random, content: bytearray) -> str:
    size = min(draw.choice((8, 64, 4096)), len(content))
    at = _place(draw, content, max(size, 1))
    content[at : at + size] = bytes(len(content[at : at + size]))
    return f"zeros from {at} on"


_WAYS: tuple[Callable[[random.Random, bytearray], str], ...] = (
    _flip, _flip, _word, _word, _word, _word, _cut, _twice, _swapped, _zeros,
)  # fmt: skip
