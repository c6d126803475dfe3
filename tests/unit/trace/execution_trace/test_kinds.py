"""What torch calls the kind of a value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope.trace.execution_trace.kinds import Kind, parse_kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Int", Kind("Int")),
        ("Tensor(float)", Kind("Tensor", "float")),
        ("Tensor(nullptr (uninitialized))", Kind("Tensor", "nullptr (uninitialized)")),
        ("Tensor(c10::complex<float>)", Kind("Tensor", "c10::complex<float>")),
        ("GenericList[]", Kind("GenericList", parts=())),
        ("GenericList[Int,Int]", Kind("GenericList", parts=(Kind("Int"), Kind("Int")))),
        (
            "Tuple[Tensor(float),GenericList[Tensor(int)],None]",
            Kind("Tuple", parts=(
                Kind("Tensor", "float"),
                Kind("GenericList", parts=(Kind("Tensor", "int"),)),
                Kind("None"),
            )),
        ),
        ("", Kind("")),
        ("odd]", Kind("odd]")),
    ],
)  # fmt: skip
def test_kinds_are_taken_apart(text, kind):
    assert parse_kind(text) == kind


@pytest.mark.parametrize("text", ["GenericList[", "GenericList[[[[", "Tensor(", "a[b(c", "[,,]"])
def test_broken_spellings_still_have_a_kind(text):
    assert isinstance(parse_kind(text), Kind)


def test_endless_nesting_ends():
    assert isinstance(parse_kind("GenericList[" * 10_000 + "]" * 10_000), Kind)


def spelled(kind):
    if kind.parts is not None:
        return f"{kind.name}[{','.join(map(spelled, kind.parts))}]"
    return f"{kind.name}({kind.element_type})" if kind.element_type else kind.name


leaves = st.sampled_from([Kind("Int"), Kind("Tensor", "long int"), Kind("None"), Kind("Object")])
kinds = st.recursive(
    leaves,
    lambda inner: st.builds(
        lambda name, parts: Kind(name, parts=tuple(parts)),
        st.sampled_from(["GenericList", "Tuple"]),
        st.lists(inner, max_size=4),
    ),
    max_leaves=15,
)


@given(kinds)
def test_a_kind_survives_its_spelling(kind):
    assert parse_kind(spelled(kind)) == kind


@given(st.text(max_size=60))
def test_any_text_has_a_kind(text):
    assert isinstance(parse_kind(text), Kind)
