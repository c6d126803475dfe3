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
