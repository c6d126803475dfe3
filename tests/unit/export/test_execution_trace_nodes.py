"""Schemas come from the trace, or from torch by name and overload."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opscope.columns.schema import EventKind
from opscope.export.execution_trace_nodes import nested_pieces, schema_size, schemas_of_events
from support.build_trace import build_trace, span

EXACT = {"options": {"overloads": True}}


def texts(*spans, metadata=EXACT):
    trace = build_trace(spans, metadata=metadata)
    rows, schemas = schemas_of_events(trace)
    return [schemas[row] if row >= 0 else "" for row in rows]


def test_overloads_are_distinguished():
    plain, out = texts(
        span("aten::add", 0, 1, overload="Tensor"), span("aten::add", 2, 3, overload="out")
    )

    assert plain == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert out.startswith("aten::add.out(")


def test_what_is_no_operator_has_none():
    assert (
        texts(
            span("detach", 0, 1),
            span("no::such_thing", 2, 3),
            span("aten::add", 4, 5, overload="no such overload"),
            span("aten::cat", 6, 7, kind=EventKind.ANNOTATION),
            span("MmBackward0", 8, 9, scope=1),
        )
        == [""] * 5
    )


def test_without_overload_names_only_what_is_certain_is_reported():
    one, several = texts(span("aten::relu_", 0, 1), span("aten::add", 2, 3), metadata={})

    assert one == "aten::relu_(Tensor(a!) self) -> Tensor(a!)"
    assert several == ""


def test_every_schema_of_torch_is_counted_as_torch_does():
    for schema in torch._C._jit_get_all_schemas():
        text = str(schema)
        if "..." not in text:
            assert schema_size(text) == (len(schema.arguments), len(schema.returns)), text


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
