"""Reading files of unpublished format that a recording leaves; any content is possible.

Native code checks its own input. This module checks the shape of JSON, and is the only one that
converts errors of damaged content to opscope's errors with the file's name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from opscope.errors import OpscopeError, TraceFormatError

_DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors of code that gets unexpected values; without errors of the system or of memory."""

_LIMIT = 2**64  # limit of all numbers in the files; addresses are the largest


@contextmanager
def reading(source: Path | str) -> Iterator[None]:
    """Convert errors of damaged content to an error that names ``source``.

    Raises:
        TraceFormatError: the content is damaged.
    """
    try:
        yield
    except OpscopeError:
        raise
    except _DAMAGE as error:
        cause = str(error) or type(error).__name__
        raise TraceFormatError(
            f"Nothing can be recovered from {source}: {cause}. Delete the file, or read it with "
            "the version of opscope that wrote it."
        ) from error


@dataclass(frozen=True)
class Between:
    """Integer from ``least`` to ``most``, both included."""

    least: int
    most: int


Shape: TypeAlias = (
    type | Between | list["Shape"] | tuple["Shape", ...] | Mapping[str, "Shape"] | None
)
"""Shape of a JSON value: a type; None for null; a range of integers; a list whose one element is
the shape of all; a tuple of alternatives; a mapping of required keys to shapes."""

TIME_NS = Between(-(2**62), 2**62)
COUNT = Between(0, 2**53)
ROW = Between(0, 2**31 - 1)


def parsed_json(text: str | bytes, shape: Shape) -> Any:
    """Value of a JSON text.

    Raises:
        ValueError: it is not JSON, or has another shape.
        RecursionError: it is nested deeper than Python can read.
    """
    value = json.loads(text, parse_int=_limited_int)
    if not has_shape(value, shape):
        raise ValueError("its contents are not from opscope")
    return value


def _limited_int(digits: str) -> int:
    number = int(digits)
    if not -_LIMIT < number < _LIMIT:
        raise ValueError("it has an impossible number")
    return number


def has_shape(value: Any, shape: Shape) -> bool:
    """Whether a value read from JSON has this shape."""
    if isinstance(shape, Between):
        return type(value) is int and shape.least <= value <= shape.most
    if isinstance(shape, tuple):
        return any(has_shape(value, item) for item in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(has_shape(item, shape[0]) for item in value)
    if isinstance(shape, Mapping):
        return isinstance(value, dict) and all(
            key in value and has_shape(value[key], inner) for key, inner in shape.items()
        )
    return value is None if shape is None else isinstance(value, shape)
