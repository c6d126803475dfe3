"""Reading files of no published format, which a recording leaves: what they say may be anything.

Native code checks what it is given of them; here is what their JSON is held against, and the one
place that makes an error of opscope's of whatever is wrong, with the name of the file.
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
"""What code raises that is given other values than it was written for. Not errors of the system,
nor of memory, which say something else."""

_MOST = 2**64
"""No number that is left is as large: addresses are the largest."""


@contextmanager
def reading(source: Path | str) -> Iterator[None]:
    """Whatever is wrong with what ``source`` says is an error that names it.

    Raises:
        TraceFormatError: it is damaged.
    """
    try:
        yield
    except OpscopeError:
        raise
    except _DAMAGE as error:
        why = str(error) or type(error).__name__
        raise TraceFormatError(
            f"Nothing can be recovered from {source}: {why}. Delete the file, or read it with the "
            "version of opscope that wrote it."
        ) from error


@dataclass(frozen=True)
class Between:
    """A whole number from ``least`` to ``most``, both included."""

    least: int
    most: int


Shape: TypeAlias = (
    type | Between | list["Shape"] | tuple["Shape", ...] | Mapping[str, "Shape"] | None
)
"""What a JSON value may be: of a type; null; a number in a range; a list of one element, which is
the shape of all; any of several; an object with at least these keys."""

TIME_NS = Between(-(2**62), 2**62)
COUNT = Between(0, 2**53)
ROW = Between(0, 2**31 - 1)


def parsed_json(text: str | bytes, shape: Shape) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is none, or of another shape.
        RecursionError: it is nested deeper than Python can read.
    """
    value = json.loads(text, parse_int=_whole_number)
    if not has_shape(value, shape):
        raise ValueError("its contents are not from opscope")
    return value


def _whole_number(digits: str) -> int:
    number = int(digits)
    if not -_MOST < number < _MOST:
        raise ValueError("it has an impossible number")
    return number


def has_shape(value: Any, shape: Shape) -> bool:
    """Whether a value read from JSON is what was to be there."""
    if isinstance(shape, Between):
        return type(value) is int and shape.least <= value <= shape.most
    if isinstance(shape, tuple):
        return any(has_shape(value, one) for one in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(has_shape(one, shape[0]) for one in value)
    if isinstance(shape, Mapping):
        return isinstance(value, dict) and all(
            key in value and has_shape(value[key], inner) for key, inner in shape.items()
        )
    return value is None if shape is None else isinstance(value, shape)
