"""The values of a node to rows of ``tensors`` and ``scalars``."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.trace.chrome.numbers import NumberText, integer, plain
from opscope.trace.dtypes import CODES_BY_CPP_NAME
from opscope.trace.execution_trace.kinds import Kind, parse_kind
from opscope.trace.labels import DEVICES
from opscope.trace.schema import Role, ScalarType
from opscope.trace.table import ListColumn

_DEVICE_CODES = {name: code for code, name in DEVICES.items()}
_TENSORS = {
    "event": "i", "argument": "h", "element": "i", "role": "B", "impl": "Q", "storage": "Q",
    "storage_offset": "q", "dtype": "b", "unsized_dtype": "b", "device_type": "b",
    "device_index": "b", "layout": "b",
}  # fmt: skip
_SCALARS = {"event": "i", "argument": "h", "role": "B", "keyword": "i", "type": "B", "value": "i"}
"""Names, and codes of :mod:`array` that match the schema: a large file has millions of rows."""

_TYPES = {
    "None": ScalarType.NONE,
    "Bool": ScalarType.BOOL,
    "Int": ScalarType.INT,
    "Double": ScalarType.FLOAT,
    "String": ScalarType.STRING,
    "Device": ScalarType.DEVICE,
    "ComplexDouble": ScalarType.COMPLEX,
}
_LISTS = {
    "Bool": ScalarType.BOOL_LIST,
    "Int": ScalarType.INT_LIST,
    "Double": ScalarType.FLOAT_LIST,
}
_UINT64 = {"low": 0, "high": (1 << 64) - 1}


Columns = dict[str, "array[int]"]


def as_array(column: array[int]) -> npt.NDArray[Any]:
    """A grown column as it is; it must not grow any more."""
    dtype = np.dtype(column.typecode)
    return np.frombuffer(column, dtype) if len(column) else np.zeros(0, dtype)


class Values:
    """Growing columns of arguments and results."""

    def __init__(self, intern: Callable[[str], int]) -> None:
        self._intern = intern
        self.tensors: Columns = {name: array(code) for name, code in _TENSORS.items()}
        self.scalars: Columns = {name: array(code) for name, code in _SCALARS.items()}
        self.lists: dict[str, tuple[array[int], array[int]]] = {
            name: (array("q", [0]), array("q")) for name in ("sizes", "strides")
        }

    def add(self, event: int, role: Role, side: Any) -> None:
        """``inputs`` or ``outputs`` of a node, whatever it holds."""
        if not isinstance(side, dict):
            return
        values, shapes, types, strides = (
            side[key] if isinstance(side.get(key), list) else []
            for key in ("values", "shapes", "types", "strides")
        )
        for i, value in enumerate(values[: 1 << 15]):
            kind = parse_kind(types[i]) if i < len(types) and type(types[i]) is str else Kind("")
            self._add(event, role, i, kind, value, _at(shapes, i), _at(strides, i))

    def add_keyword(self, event: int, name: str, kind: ScalarType, text: str) -> None:
        """One keyword argument."""
        self._scalar(event, -1, Role.KEYWORD, kind, text, self._intern(name))

    def list_column(self, name: str) -> ListColumn:
        """``sizes`` or ``strides``."""
        offsets, values = self.lists[name]
        return ListColumn(np.frombuffer(offsets, np.int64), as_array(values))

    def _add(
        self, event: int, role: Role, i: int, kind: Kind, value: Any, shape: Any, strides: Any
    ) -> None:
        parts = kind.parts
        if kind.name == "Tensor":
            self._tensor(event, role, i, -1, kind, value, shape, strides)
        elif parts is None:
            self._plain(event, role, i, kind, value)
        elif kind.name == "GenericList" and _are_tensors(parts):
            for k, part in enumerate(parts):
                where = (_at(value, k), _at(shape, k), _at(strides, k))
                self._tensor(event, role, i, k, part, *where)
        elif kind.name == "GenericList" and len({p.name for p in parts}) == 1 and (
            parts[0].name in _LISTS and isinstance(value, list)
        ):  # fmt: skip
            items = ", ".join(_text(parts[0].name, item) for item in value)
            self._scalar(event, i, role, _LISTS[parts[0].name], f"[{items}]")
        elif kind.name == "GenericList" and not parts:
            self._scalar(event, i, role, ScalarType.INT_LIST, "[]")  # of whatever kind
        else:
            self._nested(event, role, i, kind, value, shape, strides)

    def _plain(self, event: int, role: Role, i: int, kind: Kind, value: Any) -> None:
        type_ = _TYPES.get(kind.name, ScalarType.OTHER)
        if type_ in (ScalarType.OTHER, ScalarType.COMPLEX):  # the file has no value of those
            type_, text = ScalarType.OTHER, kind.name
        else:
            text = "" if type_ == ScalarType.NONE else _text(kind.name, value)
        self._scalar(event, i, role, type_, text)

    def _nested(
        self, event: int, role: Role, i: int, kind: Kind, value: Any, shape: Any, strides: Any
    ) -> None:
        tensors: list[tuple[Kind, Any, Any, Any]] = []
        described = json.dumps(_describe(kind, value, shape, strides, tensors))
        part = Role.OUTPUT_PART if role == Role.OUTPUT else Role.INPUT_PART
        for k, tensor in enumerate(tensors):
            self._tensor(event, part, i, k, *tensor)
        is_list = kind.name == "GenericList"
        type_ = ScalarType.OTHER_LIST if is_list else ScalarType.OTHER
        self._scalar(event, i, role, type_, described)

    def _scalar(
        self, event: int, i: int, role: int, type_: int, text: str, keyword: int = -1
    ) -> None:
        row = (event, i, role, keyword, type_, self._intern(text))
        for column, number in zip(self.scalars.values(), row, strict=True):
            column.append(number)

    def _tensor(
        self, event: int, role: int, i: int, element: int, kind: Kind, value: Any, shape: Any,
        strides: Any,
    ) -> None:  # fmt: skip
        fields = value if isinstance(value, list) and len(value) >= 6 else (0, 0, 0, 0, 0, "")
        sizes, steps = _integers(shape), _integers(strides)
        storage = integer(fields[1], 0, **_UINT64)
        dtype = CODES_BY_CPP_NAME.get(kind.element_type, -1)
        has_sizes = bool(sizes or storage)
        if not any(steps) and not storage:
            steps = []
        device, index = _device(fields[5])
        row = (
            event,
            i,
            element,
            role,
            integer(fields[0], 0, **_UINT64) if dtype >= 0 else 0,
            storage,
            integer(fields[2]),
            dtype if has_sizes else -1,
            -1 if has_sizes else dtype,
            device,
            index,
            -1 if kind.name == "None" else 0,
        )
        for column, number in zip(self.tensors.values(), row, strict=True):
            column.append(number)
        for numbers, name in ((sizes, "sizes"), (steps, "strides")):
            offsets, column = self.lists[name]
            column.extend(numbers)
            offsets.append(len(column))


def _are_tensors(parts: tuple[Kind, ...]) -> bool:
    names = {part.name for part in parts}
    return "Tensor" in names and names <= {"Tensor", "None"}


def _at(values: Any, i: int) -> Any:
    return values[i] if isinstance(values, list) and i < len(values) else None


def _integers(values: Any) -> list[int]:
    return [integer(value) for value in values] if isinstance(values, list) else []


def _device(text: Any) -> tuple[int, int]:
    name, _, index = str(text).partition(":")
    return _DEVICE_CODES.get(name, 0), integer(index, -1, -128, 127)


def _text(kind: str, value: Any) -> str:
    """A value as torch prints it."""
    if isinstance(value, bool):
        return str(value)
    if kind == "Double" and isinstance(value, int):
        return f"{value}."
    return str(value) if isinstance(value, str | int) else json.dumps(plain(value))


def _describe(
    kind: Kind, value: Any, shape: Any, strides: Any, tensors: list[tuple[Kind, Any, Any, Any]]
) -> Any:
    """A nested value in the trace's form; its tensors are appended to ``tensors``."""
    if kind.name == "Tensor":
        tensors.append((kind, value, shape, strides))
        return "Tensor"
    if kind.parts is not None:
        return {
            kind.name: [
                _describe(part, _at(value, k), _at(shape, k), _at(strides, k), tensors)
                for k, part in enumerate(kind.parts)
            ]
        }
    if kind.name not in _TYPES or kind.name in ("None", "ComplexDouble"):
        return {kind.name: None}
    if isinstance(value, NumberText):
        value = float(value)
    return {kind.name: value if isinstance(value, str | int | float) else None}
