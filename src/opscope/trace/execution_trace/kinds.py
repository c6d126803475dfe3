"""What torch calls the kind of a value: ``Tensor(float)``, ``GenericList[Int,Int]``, ``None``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

MAX_DEPTH = 64


@dataclass(frozen=True)
class Kind:
    """One kind.

    Attributes:
        name: ``Tensor``, ``Int``, ``GenericList``, ``Tuple``, ...
        element_type: of a tensor: torch's C++ name of the type of its elements.
        parts: of a list or tuple, else None.
    """

    name: str
    element_type: str = ""
    parts: tuple[Kind, ...] | None = None


@lru_cache(maxsize=1 << 16)
def parse_kind(text: str) -> Kind:
    """The kind that ``text`` spells; what is spelled otherwise is a kind of that name."""
    kind, end = _parse(text, 0, 0)
    return kind if end == len(text) else Kind(text)


def _parse(text: str, at: int, depth: int) -> tuple[Kind, int]:
    end = at
    while end < len(text) and text[end] not in "([,]":
        end += 1
    name = text[at:end]
    if end < len(text) and text[end] == "(":
        close = _closing(text, end)
        return Kind(name, element_type=text[end + 1 : close]), close + 1
    if end < len(text) and text[end] == "[" and depth < MAX_DEPTH:
        return _parse_parts(text, end, name, depth)
    return Kind(name), end


def _parse_parts(text: str, at: int, name: str, depth: int) -> tuple[Kind, int]:
    parts: list[Kind] = []
    at += 1
    while at < len(text) and text[at] != "]":
        part, end = _parse(text, at, depth + 1)
        if end == at or (end < len(text) and text[end] not in ",]"):
            return Kind(text), len(text)
        parts.append(part)
        at = end + 1 if end < len(text) and text[end] == "," else end
    return Kind(name, parts=tuple(parts)), at + 1


def _closing(text: str, at: int) -> int:
    """The bracket that closes the one at ``at``; the end of the text if there is none."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return len(text)
