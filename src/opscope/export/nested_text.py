"""Tuples and lists of lists (see ``columns.schema.SCALARS``) as the JSON of an execution trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

GAP = "\0"  # where a tensor goes; JSON escapes it in texts
MAX_DEPTH = 64

Pieces = tuple[list[str], list[str], list[str]]


def nested_pieces(text: str) -> Pieces | None:
    """Values, shapes and types of a nested value, each cut where its tensors go.

    None if ``text`` is not one.
    """
    try:
        value = json.loads(text)
        return (
            "".join(_values(value, 0)).split(GAP),
            "".join(_shapes(value, 0)).split(GAP),
            "".join(_types(value, 0)).split(GAP),
        )
    except (ValueError, RecursionError):
        return None


def _values(value: Any, depth: int) -> Iterator[str]:
    kind, content = _open(value, depth)
    if kind == "Tensor":
        yield GAP
    elif isinstance(content, list) and kind != "ComplexDouble":
        yield "["
        for i, item in enumerate(content):
            yield "," if i else ""
            yield from _values(item, depth + 1)
        yield "]"
    elif content is None or kind == "ComplexDouble":
        yield json.dumps(f"<{kind}>")
    else:
        yield json.dumps(content, ensure_ascii=False)


def _shapes(value: Any, depth: int) -> Iterator[str]:
    kind, content = _open(value, depth)
    if kind == "Tensor":
        yield GAP
        return
    yield "["
    if isinstance(content, list) and kind != "ComplexDouble":
        for i, item in enumerate(content):
            yield "," if i else ""
            yield from _shapes(item, depth + 1)
    yield "]"


def _types(value: Any, depth: int) -> Iterator[str]:
    kind, content = _open(value, depth)
    if kind == "Tensor":
        yield GAP
        return
    yield json.dumps(kind, ensure_ascii=False)[1:-1]
    if isinstance(content, list) and kind != "ComplexDouble":
        yield "["
        for i, item in enumerate(content):
            yield "," if i else ""
            yield from _types(item, depth + 1)
        yield "]"


def _open(value: Any, depth: int) -> tuple[str, Any]:
    """Kind and content of one value.

    Raises:
        ValueError: it is neither a tensor nor ``{kind: content}``, or nested too deep.
    """
    if value == "Tensor":
        return "Tensor", None
    if not isinstance(value, dict) or len(value) != 1 or depth > MAX_DEPTH:
        raise ValueError("not a nested value")
    [(kind, content)] = value.items()
    if isinstance(content, dict) or kind == "Tensor":
        raise ValueError("not a nested value")
    return kind, content
