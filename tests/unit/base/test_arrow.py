"""Numbers and texts of Arrow's columns, as Arrow itself gives them."""

from itertools import chain, pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope.base.arrow import in_one, is_text, numbers_of, text_bytes


@given(
    values=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40),
    kind=st.sampled_from([pa.int64(), pa.int32(), pa.float64(), pa.bool_(), pa.uint8()]),
    cut=st.integers(0, 40),
    length=st.integers(0, 40),
)
def test_numbers_of_arrow_are_those_that_arrow_gives(values, kind, cut, length):
    fitting = [abs(value) % 256 if kind == pa.uint8() else value for value in values]
    array = pa.array([value % 2 == 0 for value in fitting] if kind == pa.bool_() else fitting, kind)
    part = array.slice(cut, length)
    found, expected = numbers_of(part), part.to_numpy(zero_copy_only=False)
    assert found.dtype == expected.dtype and found.tolist() == expected.tolist()


@given(
    texts=st.lists(st.text(max_size=5), max_size=20),
    kind=st.sampled_from([pa.string(), pa.large_string()]),
    cut=st.integers(0, 20),
    length=st.integers(0, 20),
    packed=st.booleans(),
)
def test_texts_of_arrow_are_those_that_arrow_gives(texts, kind, cut, length, packed):
    array = pa.array(texts, kind)
    part = (array.dictionary_encode() if packed else array).slice(cut, length)
    offsets, blob = text_bytes(part)
    pieces = [blob[a:b].decode() for a, b in pairwise(offsets)]
    assert pieces == part.to_pylist()
    assert (offsets[0], offsets[-1]) == (0, len(blob))
    assert is_text(part.type)


@pytest.mark.parametrize("chunks", [[], [[1]], [[1, 2], [], [3]]])
def test_columns_in_pieces_are_put_together(chunks):
    column = pa.chunked_array([pa.array(chunk, pa.int32()) for chunk in chunks], pa.int32())
    assert in_one(column).to_pylist() == [*chain(*chunks)]
    assert not is_text(column.type)
