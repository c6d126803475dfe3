"""Evaluations are found among the names, wherever their text happens to begin."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.columns.schema import ScalarType
from opscope.export.chrome.columns import backward_numbers, keyword_fragment

PREFIX = "autograd::engine::evaluate_function: "
PARTS = st.sampled_from(
    ["", PREFIX, PREFIX + "MmBackward0", "autograd::engine::", "x", "x" + PREFIX]
)


@given(st.lists(PARTS, max_size=8))
@example(["autograd::engine::", "evaluate_function: x"])
@example(["", "", PREFIX, "", PREFIX])
def test_only_names_that_begin_so_are_evaluations(names):
    # GIVEN an event of each name, each with a child that has a sequence number
    count = len(names)
    nothing = np.full(count, -1)
    events = {
        "name": np.concatenate([np.arange(count), nothing]),
        "parent": np.concatenate([nothing, np.arange(count)]),
        "sequence_number": np.concatenate([nothing, np.arange(count) + 5]),
        "forward_thread": np.concatenate([nothing * 0, np.full(count, 2)]),
    }

    number, thread = backward_numbers(Trace({"events": events}, Names.from_strings(names)))

    expected = [i + 5 if name.startswith(PREFIX) else -1 for i, name in enumerate(names)]
    assert number[:count].tolist() == expected
    assert thread[:count].tolist() == [2 if n >= 0 else 0 for n in expected]
    assert number[count:].tolist() == list(range(5, 5 + count))


def test_the_first_of_several_nodes_counts():
    events = {
        "name": [0, 1, 1],
        "parent": [-1, 0, 0],
        "sequence_number": [-1, 3, 4],
        "forward_thread": [0, 1, 2],
    }

    trace = Trace({"events": events}, Names.from_strings([PREFIX + "A", "A"]))

    assert [column.tolist() for column in backward_numbers(trace)] == [[3, 3, 4], [1, 1, 2]]


STRINGS = '{"GenericList":[{"String":"a"},{"String":"b"}]}'


@pytest.mark.parametrize(
    ("kind", "text", "written"),
    [
        (ScalarType.INT, "42", "42"),
        (ScalarType.FLOAT, "2.5", "2.5"),
        (ScalarType.BOOL, "False", "false"),
        (ScalarType.STRING, "word", '"word"'),
        (ScalarType.STRING, 'with "quotes"', '"None"'),
        (ScalarType.OTHER_LIST, STRINGS, '["a","b"]'),
        (ScalarType.OTHER_LIST, "[]", "[]"),
    ],
)
def test_what_torch_writes(kind, text, written):
    fragment = keyword_fragment("key", kind, text)
    assert fragment is not None
    assert fragment.replace(", ", ",") == f'"key":{written}'


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ScalarType.INT_LIST, "[1, 2]"),
        (ScalarType.OTHER_LIST, '{"GenericList":[{"String":"a"},{"Int":1}]}'),
        (ScalarType.OTHER_LIST, "broken"),
        (ScalarType.NONE, ""),
        (ScalarType.OTHER, "Object"),
    ],
)
def test_what_torch_leaves_out(kind, text):
    assert keyword_fragment("key", kind, text) is None


def test_keys_that_readers_rely_on_keep_their_type():
    assert keyword_fragment("stream", ScalarType.STRING, "x") is None
    assert keyword_fragment("grid", ScalarType.STRING, "grid(1,)") == '"grid":"grid(1,)"'
    assert keyword_fragment("Ev Idx", ScalarType.INT, "1") is None
