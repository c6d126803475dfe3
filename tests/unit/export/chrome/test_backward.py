"""Evaluations are found among the names, wherever their text happens to begin."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.export.chrome.columns import backward_numbers

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
