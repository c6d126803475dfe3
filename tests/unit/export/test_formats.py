"""``Trace.export``: every format by its name."""

import pytest

from opscope import UsageError
from opscope.export.formats import WRITERS
from opscope.trace.schema import EventKind
from support.build_trace import allocation, build_trace, span, tensor

TRACE = build_trace(
    [
        span("main", 0, 20, kind=EventKind.PYTHON_CALL, frame=("main.py", 1, "main")),
        span("aten::mm", 0, 10, inputs=[tensor(2, 3), tensor(3, 2)]),
    ],
    allocations=[allocation(5, 16, address=0x10, allocation_id=1, tensor_id=0)],
)


@pytest.mark.parametrize("format", WRITERS)
def test_a_trace_exports_itself(format, tmp_path):
    TRACE.export(format, tmp_path / "file")

    assert (tmp_path / "file").stat().st_size > 0


def test_an_unknown_format_names_the_known_ones(tmp_path):
    with pytest.raises(UsageError, match=r"no export format 'svg'.*chrome.*execution-trace"):
        TRACE.export("svg", tmp_path / "file")


def test_a_path_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(UsageError, match="annot"):
        TRACE.export("execution-trace", tmp_path / "missing" / "file")
