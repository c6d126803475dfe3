"""Tuples and lists of lists."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope.export.value_rows import nested_pieces


def test_tensors_are_gaps():
    text = json.dumps({"Tuple": ["Tensor", {"Int": 2}, {"GenericList": ["Tensor"]}]})

    assert nested_pieces(text) == (
        ["[", ",2,[", "]]"],
        ["[", ",[],[", "]]"],
        ["Tuple[", ",Int,GenericList[", "]]"],
    )


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"a": 1, "b": 2}', '{"Tensor": 1}', '{"a": {}}', "[" * 100_000]
)
def test_what_is_no_nested_value_is_left_alone(text):
    assert nested_pieces(text) is None


def test_too_deep_a_value_is_left_alone():
    deep = "Tensor"
    for _ in range(200):
        deep = {"Tuple": [deep]}
    assert nested_pieces(json.dumps(deep)) is None


leaves = st.one_of(
    st.just("Tensor"),
    st.integers().map(lambda n: {"Int": n}),
    st.text(max_size=8).map(lambda s: {"String": s}),
    st.just({"None": None}),
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4).map(lambda v: {"Tuple": v}), max_leaves=12
)


def tensors_in(value):
    if value == "Tensor":
        return 1
    [content] = value.values()
    return sum(map(tensors_in, content)) if isinstance(content, list) else 0


@given(values)
def test_filled_gaps_give_json(value):
    pieces = nested_pieces(json.dumps(value))
    count = tensors_in(value)

    for texts, filling in zip(pieces, ("[1]", "[2]", "T"), strict=True):
        assert len(texts) == count + 1
        text = filling.join(texts)
        json.loads(f'"{text}"' if filling == "T" else text)
