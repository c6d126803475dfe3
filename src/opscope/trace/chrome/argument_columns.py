"""What Kineto writes about an operator's arguments, as rows of ``tensors`` and ``scalars``."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import numpy as np

from opscope.trace.chrome.categories import BESIDE
from opscope.trace.chrome.numbers import NumberText
from opscope.trace.dtypes import CODES_BY_CPP_NAME
from opscope.trace.schema import Role, ScalarType
from opscope.trace.table import ListColumn

KNOWN_KEYS = frozenset({
    "External id", "Record function id", "Ev Idx", "Sequence number", "Fwd thread id",
    "Input Dims", "Input dims", "Input type", "Input Strides", "Concrete Inputs", "Call stack",
    "Module Hierarchy", "Overload Name", "Collective name", "fwd_thread_id", "python_caller",
    BESIDE,
})  # fmt: skip
"""Keys of ``args`` that are not keyword arguments of the call."""

_MOST_ARGUMENTS = 32_767  # tensors.argument is an int16
_INTEGER = re.compile(r"-?\d+$")
_COMPLEX = re.compile(r".*j\)?$")
_LISTS = {
    ScalarType.BOOL: ScalarType.BOOL_LIST,
    ScalarType.INT: ScalarType.INT_LIST,
    ScalarType.FLOAT: ScalarType.FLOAT_LIST,
}


class ArgumentColumns:
    """Growing columns of both tables; ``event`` is the collector's row until assembled."""

    def __init__(self, intern: Callable[[str], int]) -> None:
        """``intern`` gives the row of a text in the name table."""
        self._intern = intern
        self._scalar_types: dict[str, int] = {}
        flat = ("event", "argument", "element", "dtype")
        self.tensors = {name: array("q") for name in flat}
        self.lists = {name: (array("q"), array("q")) for name in ("sizes", "strides")}
        names = ("event", "argument", "role", "keyword", "type", "value")
        self.scalars = {name: array("q") for name in names}

    def add(self, event: int, args: dict[str, Any]) -> None:
        """Rows for one operator; whatever does not look as Kineto writes it becomes OTHER."""
        types = args.get("Input type")
        if types is None or not isinstance(types, list):
            return
        dims = _list(args.get("Input Dims", args.get("Input dims")))
        strides = _list(args.get("Input Strides"))
        texts = _list(args.get("Concrete Inputs"))
        count = min(len(types), _MOST_ARGUMENTS)
        rows = zip_longest(types[:count], dims[:count], strides[:count], texts[:count])
        for position, (kind, sizes, stride, text) in enumerate(rows):
            dtype = CODES_BY_CPP_NAME.get(kind, -1) if isinstance(kind, str) else -1
            if dtype >= 0:
                self._tensor(event, position, -1, dtype, sizes, stride)
            elif kind == "TensorList" and sizes:
                self._tensor_list(event, position, _list(sizes), _list(stride))
            else:
                self._scalar(event, position, kind, text)

    def add_keywords(self, event: int, args: dict[str, Any]) -> None:
        """Rows for the keyword arguments, which Kineto writes as keys of their own."""
        for key in args.keys() - KNOWN_KEYS:
            value = args[key]
            if isinstance(value, bool | int | str):
                kind = _type_of(str(value)) if not isinstance(value, str) else ScalarType.STRING
                kind = _type_of(value) if isinstance(value, NumberText) else kind
                self._append(event, -1, Role.KEYWORD, self._intern(key), kind, str(value))

    def _tensor(
        self, event: int, position: int, element: int, dtype: int, sizes: Any, strides: Any
    ) -> None:
        columns = self.tensors
        columns["event"].append(event)
        columns["argument"].append(position)
        columns["element"].append(element)
        columns["dtype"].append(dtype)
        for (values, ends), row in zip(self.lists.values(), (sizes, strides), strict=True):
            mark = len(values)
            try:
                values.extend(row or ())
            except (TypeError, OverflowError):  # not integers, or beyond 64 bits: unknown shape
                del values[mark:]
            ends.append(len(values))

    def _tensor_list(self, event: int, position: int, sizes: list[Any], strides: list[Any]) -> None:
        for element, (size, stride) in enumerate(
            zip_longest(sizes, strides[: len(sizes)], fillvalue=())
        ):
            self._tensor(event, position, element, -1, size, stride)

    def _scalar(self, event: int, position: int, kind: Any, value: Any) -> None:
        text = value if isinstance(value, str) else ""
        if kind == "Scalar":
            found: int = self._type_of(text)
        elif kind == "ScalarList":
            first = text[1:].partition(",")[0].rstrip("]")
            listed = ScalarType(self._type_of(first)) if first else ScalarType.INT
            found = _LISTS.get(listed, ScalarType.OTHER_LIST)
        else:
            found = ScalarType.TENSOR_LIST if kind == "TensorList" else ScalarType.OTHER
        self._append(event, position, Role.INPUT, -1, found, text)

    def _append(
        self, event: int, position: int, role: int, keyword: int, kind: int, text: str
    ) -> None:
        columns = self.scalars
        columns["event"].append(event)
        columns["argument"].append(position)
        columns["role"].append(role)
        columns["keyword"].append(keyword)
        columns["type"].append(kind)
        columns["value"].append(self._intern(text) if text else -1)

    def _type_of(self, text: str) -> int:
        """Cached: a run has millions of scalars and a few hundred different ones."""
        kind = self._scalar_types.get(text)
        if kind is None:
            kind = self._scalar_types[text] = _type_of(text)
        return kind

    def list_column(self, name: str) -> ListColumn:
        """``sizes`` or ``strides`` of all tensor rows."""
        values, ends = self.lists[name]
        offsets = np.zeros(len(ends) + 1, dtype=np.int64)
        offsets[1:] = np.frombuffer(ends, dtype=np.int64) if ends else 0
        return ListColumn(offsets, np.array(values, dtype=np.int64))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _type_of(text: str) -> int:
    if text in ("True", "False"):
        return ScalarType.BOOL
    if _INTEGER.match(text):
        return ScalarType.INT
    if _COMPLEX.match(text):
        return ScalarType.COMPLEX
    try:
        float(text)
    except ValueError:
        return ScalarType.STRING if text else ScalarType.OTHER
    return ScalarType.FLOAT
