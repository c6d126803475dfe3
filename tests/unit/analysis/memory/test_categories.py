"""Which arguments an operator may change, against torch's own matching of schemas."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.profiler._memory_profiler import SchemaMatcher, TensorKey, _Storage

from opscope.analysis.memory.categories import (
    Access,
    match_signature,
    takes_optional_tensors,
)
from opscope.columns.overloads import registered_overloads, registered_schema

KEY = TensorKey(torch.device("cpu"), 0, _Storage(0, 0))

NAMES = sorted({name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()})


def test_without_a_schema_that_fits_nothing_is_clear():
    assert match_signature("MulBackward0", "T").overloads == ()
    assert match_signature("aten::add_", "TTTT").access == (Access.UNCLEAR,) * 4
    assert match_signature("no::such_operator", "TN").access == (Access.UNCLEAR, Access.NO_TENSOR)


def test_lists_of_optional_tensors_are_left_out():
    assert match_signature("aten::index", "TL").access == (Access.READS, Access.NO_TENSOR)
    assert takes_optional_tensors("aten::index", 1)
    assert not takes_optional_tensors("aten::cat", 0)
    assert not takes_optional_tensors("aten::index", 9)


def test_operators_registered_later_are_found():
    assert match_signature("opscope_test::change", "T").overloads == ()
    library = torch.library.Library("opscope_test", "DEF")
    library.define("change(Tensor(a!) x) -> ()")

    assert match_signature("opscope_test::change", "T").access == (Access.WRITES,)


def as_torch_sees_it(kind):
    """What torch's profiler would have recorded for a kind of argument."""
    return {"T": KEY, "L": [KEY], "N": None, "b": True, "i": 1, "f": 1.0, "c": 1j}[kind]


@settings(max_examples=120)
@given(data=st.data())
def test_agrees_with_torchs_matcher_on_any_operator(data):
    name = data.draw(st.sampled_from(NAMES))
    schemas = schemas_of(name)
    schema = schemas[data.draw(st.integers(0, len(schemas) - 1))]
    kinds = "".join(
        data.draw(st.sampled_from(likely(argument.type) + "TLNbifc"))
        for argument in schema.arguments
    )
    has_lists_torch_skips = any(
        kind == "L" and takes_optional_tensors(name, position)
        for position, kind in enumerate(kinds)
    )
    signature = [as_torch_sees_it(kind) for kind in kinds]
    if has_lists_torch_skips:
        return  # the one difference: these lists are recorded here

    found = match_signature(name, kinds)
    expected = [
        overload
        for overload in schemas
        if len(overload.arguments) == len(signature)
        and all(
            SchemaMatcher._types_match(observed, argument.type)
            for observed, argument in zip(signature, overload.arguments, strict=True)
        )
    ]

    assert found.overloads == tuple(overload.overload_name for overload in expected)
    for position, kind in enumerate(kinds):
        if kind in "TL" and expected:
            writes = any(
                getattr(overload.arguments[position].alias_info, "is_write", False)
                for overload in expected
            )
            assert found.access[position] == (Access.WRITES if writes else Access.READS)


def schemas_of(name):
    """Those of operators; functions that only TorchScript has are never recorded."""
    return [registered_schema(name, overload) for overload in registered_overloads(name)]


def likely(kind):
    """Letters that fit a type of argument, so that whole schemas fit often enough."""
    text = str(kind)
    if "Tensor" in text:
        return "L" * 20 if "List" in text else "T" * 20
    return {"int": "i", "bool": "b", "float": "f", "number": "i"}.get(text, "N") * 20
