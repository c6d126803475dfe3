"""What a Parquet file says it holds, without Arrow."""

import io
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opscope.trace.parquet_footer import unpacked_bytes
from support.hostile_sources import built_trace


def parquet(table, **options):
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file


@pytest.mark.parametrize("row_group_size", [1, 7, 1000])
def test_values_of_all_columns_and_groups_count(row_group_size):
    table = pa.table({"a": range(100), "b": [[1, 2, 3]] * 100, "c": ["text"] * 100})
    file = parquet(table, row_group_size=row_group_size)
    described = pq.ParquetFile(file).metadata
    expected = 0
    for group in range(described.num_row_groups):
        for number in range(3):
            column = described.row_group(group).column(number)
            expected += max(column.num_values * 8, column.total_uncompressed_size)
    assert unpacked_bytes(file) == expected


def test_every_file_of_a_trace_can_be_read(tmp_path):
    for file in sorted(built_trace().save(tmp_path / "t").glob("*.parquet")):
        with open(file, "rb") as opened:
            assert unpacked_bytes(opened) >= 8
            assert opened.tell() == 0


@pytest.mark.parametrize(
    "content",
    [b"", b"PAR1", b"x" * 100, b"\0\0\0\0PAR1", b"\xff\xff\xff\xffPAR1", b"\x1c\x01\0\0\0PAR1"],
)
def test_what_is_no_parquet_file_says_so(content):
    with pytest.raises(ValueError, match=r"no Parquet file|footer is damaged"):
        unpacked_bytes(io.BytesIO(content))


def test_a_damaged_footer_ends_in_a_number_or_an_error():
    whole = parquet(pa.table({"a": [1, 2], "b": [[1], []]})).getvalue()
    draw = random.Random(1)
    for _ in range(2000):
        content = bytearray(whole)
        for _ in range(draw.choice((1, 3))):
            content[draw.randrange(len(content) // 2, len(content))] = draw.randrange(256)
        try:
            assert unpacked_bytes(io.BytesIO(content)) >= 0
        except ValueError:
            continue


def field(kind, step=1):
    """The head of a field in Thrift's compact protocol."""
    return bytes([step << 4 | kind])


@pytest.mark.parametrize(
    "footer",
    [
        field(9, 4) + b"\x1c" + b"\0" + b"\0",  # a group of rows without columns
        field(12, 4) + b"\0\0",  # groups of rows that are no list
        field(9, 4) + b"\xfc" + b"\xff" * 9 + b"\x01",  # more of them than there are bytes
        field(9, 3) + b"\x19" * 100_000,  # lists in lists in lists
        field(12, 3) + field(12) * 100,  # structures likewise
        field(11, 3),  # a map
        field(8, 3) + b"\xff\xff\xff\xff\x0f",  # a text longer than the footer
        field(6, 3) + b"\xff" * 10,  # a number that does not end
    ],
)
def test_a_footer_that_makes_no_sense_says_so(footer):
    content = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(ValueError, match="footer is damaged"):
        unpacked_bytes(io.BytesIO(content))


def test_counts_that_no_number_holds_are_as_much_as_one_does():
    most = b"\xfe" + b"\xff" * 8 + b"\x01"  # 2**63 - 1
    column = field(12, 3) + field(6, 5) + most + field(6) + b"\x02" + b"\0" + b"\0"
    group = field(9) + b"\x2c" + column * 2 + b"\0"
    footer = field(9, 4) + b"\x1c" + group + b"\0"
    content = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    assert unpacked_bytes(io.BytesIO(content)) == 2**63 - 1
