"""Keyword arguments as a Chrome trace has them."""

import pytest

from opscope.columns.schema import ScalarType
from opscope.export.chrome.columns import keyword_fragment

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
