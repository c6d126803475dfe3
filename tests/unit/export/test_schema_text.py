"""Schemas come from the trace, or from torch by name and overload."""

import torch

from opscope.columns.schema import EventKind
from opscope.export.schema_text import schema_size, schemas_of_events
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
