"""Formats of files by their names, as ``Trace.export`` and the command line take them."""

import pytest

from opscope.api.trace import Trace
from opscope.cli.export import ALL_FORMATS
from opscope.columns.schema import EventKind
from opscope.export.all_formats import FORMATS
from opscope.export.format import find_format, format_of_file
from support.build_trace import allocation, build_trace, span, tensor

TRACE = build_trace(
    [
        span("main", 0, 20, kind=EventKind.PYTHON_CALL, frame=("main.py", 1, "main")),
        span("aten::mm", 0, 10, inputs=[tensor(2, 3), tensor(3, 2)]),
    ],
    allocations=[allocation(5, 16, address=0x10, allocation_id=1, tensor_id=0)],
)


@pytest.mark.parametrize("format", [format.name for format in FORMATS])
def test_a_trace_exports_itself(format, tmp_path):
    TRACE.export(format, tmp_path / "file")

    assert (tmp_path / "file").stat().st_size > 0


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("out.json", "chrome"),
        ("out.json.gz", "chrome"),
        ("out.et.json", "execution-trace"),
        ("out.speedscope.json.gz", "speedscope"),
        ("out.memory.json.gz", "memory-timeline"),
        ("out.raw.json.gz", "memory-timeline"),
        ("out.csv", "csv"),
        ("folder.opscope", "trace"),
    ],
)
def test_the_longest_end_of_a_file_name_says_the_format(file, name):
    for formats in (ALL_FORMATS, ALL_FORMATS[::-1]):
        assert format_of_file(file, formats) is find_format(name, formats)


def test_the_documentation_names_every_format():
    assert [f.name for f in FORMATS if f"``{f.name}``" not in Trace.export.__doc__] == []
