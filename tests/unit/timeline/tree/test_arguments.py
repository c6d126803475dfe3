"""Decoding of recorded arguments."""

import math

import numpy as np
import pytest

from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.columns.schema import ScalarType
from opscope.timeline.tree.arguments import Arguments, RowsOfEvent, Scalar, scalar_value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ScalarType.NONE, "", None),
        (ScalarType.BOOL, "True", True),
        (ScalarType.BOOL, "False", False),
        (ScalarType.INT, "-3", -3),
        (ScalarType.FLOAT, "1.", 1.0),
        (ScalarType.FLOAT, "inf", math.inf),
        (ScalarType.COMPLEX, "1+2j", 1 + 2j),
        (ScalarType.STRING, "same", "same"),
        (ScalarType.DEVICE, "cpu", "cpu"),
        (ScalarType.INT_LIST, "[1, -2]", [1, -2]),
        (ScalarType.INT_LIST, "[]", []),
        (ScalarType.FLOAT_LIST, "[2.5]", [2.5]),
        (ScalarType.BOOL_LIST, "[True, False]", [True, False]),
        (ScalarType.TENSOR_LIST, "", []),
        (ScalarType.OTHER, "", None),
        (ScalarType.INT, "s0 + 1", "s0 + 1"),
    ],
)
def test_scalar_values(kind, text, value):
    assert scalar_value(kind, text) == value


def test_an_argument_that_was_not_recorded_is_none():
    scalars = {"event": [0], "argument": [2], "type": [ScalarType.INT], "value": [0]}
    trace = Trace({"events": {"name": [1]}, "scalars": scalars}, Names.from_strings(["7", "f"]))

    assert Arguments(trace).inputs(0) == [None, None, Scalar(ScalarType.INT, 7)]


def test_rows_of_an_event_in_an_unsorted_table():
    columns = {"event": np.array([2, 0, 2, 1]), "argument": [0, 0, 1, 0]}
    table = Trace({"scalars": columns}, Names.from_strings([])).table("scalars")

    rows = RowsOfEvent(table)

    assert [rows.rows(event).tolist() for event in range(4)] == [[1], [3], [0, 2], []]


@pytest.mark.parametrize(
    ("text", "strings"),
    [
        ('{"GenericList":[{"String":"a"},{"String":"b"}]}', ["a", "b"]),
        ('["a", "b"]', ["a", "b"]),
        ("[]", []),
        ("[1, 2]", None),
        ('{"GenericList":[{"Int":1}]}', None),
        ('{"Tuple":[{"String":"a"}]}', None),
        ("7", None),
        ("not JSON", None),
        ("", None),
    ],
)
def test_lists_of_strings(text, strings):
    assert scalar_value(ScalarType.OTHER_LIST, text) == strings
