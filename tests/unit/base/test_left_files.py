"""What files of recordings say is held against what it may be."""

import pytest

from opscope.base.left_files import COUNT, Between, has_shape, reading, said
from opscope.errors import TraceFormatError, UsageError


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (3, COUNT),
        (None, (COUNT, None)),
        (["a", "b"], [str]),
        ([], [str]),
        ({"a": 1, "more": 2}, {"a": int}),
        ({"rows": [{"end": 1.5}]}, {"rows": [{"end": (int, float)}]}),
    ],
)
def test_what_fits(value, shape):
    assert has_shape(value, shape)


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (-1, COUNT),
        (True, Between(0, 1)),
        (1.0, COUNT),
        (["a", 1], [str]),
        ("ab", [str]),
        ({}, {"a": int}),
        ([["a"]], {"a": int}),
        (2, None),
    ],
)
def test_what_does_not_fit(value, shape):
    assert not has_shape(value, shape)


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, '{"a": ' + "9" * 30 + "}", '{"a": "1"}', '{"a": -1}', "[1]"]
)
def test_damage_names_the_file(text):
    refused = pytest.raises(TraceFormatError, match=r"Nothing can be recovered from there\.json: ")
    with refused, reading("there.json"):
        said(text, {"a": COUNT})


@pytest.mark.parametrize("error", [KeyError("a"), OverflowError("b"), EOFError(), IndexError()])
def test_whatever_reading_it_raises_is_damage(error):
    with pytest.raises(TraceFormatError) as raised, reading("there"):
        raise error
    assert raised.value.__cause__ is error


@pytest.mark.parametrize("error", [UsageError("x"), OSError("gone"), MemoryError()])
def test_other_errors_are_themselves(error):
    with pytest.raises(type(error)) as raised, reading("there"):
        raise error
    assert raised.value is error
