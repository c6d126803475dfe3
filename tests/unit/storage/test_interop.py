"""Tables as Arrow, pandas and Polars: text for people, our own memory for programs."""

import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.columns.schema import TABLES
from opscope.errors import MissingDependencyError, UsageError
from opscope.storage.interop import table_from_arrow
from support.build_trace import allocation, build_trace, kernel, span, tensor
from support.processes import output_of
from support.random_trace import assert_same_table, random_trace


@pytest.fixture
def trace():
    return build_trace(
        [
            span("ProfilerStep#0", 0, 100),
            span("aten::add", 10, 30, inputs=[tensor(2, 3), 1.5], overload="Tensor"),
            span("aten::add", 40, None, "worker", inputs=[tensor(4, dtype="int64"), True]),
        ],
        allocations=[allocation(12, 64), allocation(13, -64)],
        gpu=[kernel("gemm", 1, 2)],
    )


def test_names_and_codes_are_text(trace):
    events = trace.to_arrow("events")
    assert events["name"].to_pylist() == ["ProfilerStep#0", "aten::add", "aten::add"]
    assert events["overload"].to_pylist() == [None, "Tensor", None]
    assert events["kind"].to_pylist() == ["annotation", "operator", "operator"]
    assert events["id"].to_pylist() == [0, 1, 2]
    assert pa.types.is_dictionary(events["name"].type)
    assert trace.to_arrow("tensors")["dtype"].to_pylist() == ["float32", "int64"]
    assert trace.to_arrow("tensors")["sizes"].to_pylist() == [[2, 3], [4]]
    assert trace.to_arrow("scalars")["type"].to_pylist() == ["float", "bool"]
    assert trace.to_arrow("allocations")["action"].to_pylist() == ["allocate", "free"]
    assert trace.to_arrow("gpu")["device_type"].to_pylist() == ["cuda"]
    assert trace.to_polars("names")["text"].to_list() == list(trace.names)


def test_without_text_the_columns_are_the_traces_own_memory(trace):
    tensors = trace.to_arrow("tensors", text=False)
    assert tensors["dtype"].to_pylist() == [6, 4]
    address = tensors["event"].chunk(0).buffers()[1].address
    assert address == trace.table("tensors")["event"].ctypes.data
    values = tensors["sizes"].chunk(0).values.buffers()[1].address
    assert values == trace.table("tensors").lists("sizes").values.ctypes.data


def test_codes_without_a_label_are_numbers():
    trace = Trace({"tensors": {"dtype": np.array([6, 120, -1])}}, Names.from_strings([]))
    assert trace.to_arrow("tensors")["dtype"].to_pylist() == ["float32", "120", None]


def test_a_text_that_is_in_the_name_table_twice_is_one_category():
    names = Names.from_strings(["aten::add", "aten::add"])
    trace = Trace({"events": {"name": [0, 1, -1]}}, names)
    frame = trace.to_pandas()
    assert frame["name"].value_counts().to_dict() == {"aten::add": 2}


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_requested_by_name(trace, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=f"pip install {package}"):
        getattr(trace, f"to_{package}")()


def test_an_unknown_table_is_refused(trace):
    with pytest.raises(UsageError, match=r"no table 'event'.*events, tensors"):
        trace.to_arrow("event")


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), text=st.booleans())
def test_every_table_converts_and_comes_back(seed, text):
    trace = random_trace(seed)
    for name, schema in TABLES.items():
        arrow = trace.to_arrow(name, text)
        assert arrow.num_rows == len(trace.table(name))
        if not text:
            assert_same_table(table_from_arrow(schema, arrow), trace.table(name))


def test_nulls_of_foreign_files_mean_none_where_there_is_a_none():
    required = {c.name: pa.array([0, 0]) for c in TABLES["events"].columns if c.required}
    data = {**required, "parent": pa.array([None, 0], pa.int64())}
    table = table_from_arrow(TABLES["events"], pa.table(data))
    assert table["parent"].tolist() == [-1, 0]
    with pytest.raises(ValueError, match="kind has rows without a value"):
        table_from_arrow(TABLES["events"], pa.table({**data, "kind": pa.array([2, None])}))


def test_looking_at_a_trace_imports_no_pandas(tmp_path):
    """It takes a quarter of a second, and an interrupt that falls into it is lost."""
    pytest.importorskip("pandas")
    for rank in range(2):
        build_trace([span("aten::mm", 0, 10, inputs=[tensor(2, 3)])]).save(tmp_path, rank=rank)
    program = (
        "import sys\nfrom opscope.cli import main\n"
        f"for words in (['why'], ['why', '--all'], ['ranks'], ['summary', '--rank', '0'], "
        f"['report', '-o', {str(tmp_path / 'page.html')!r}]):\n"
        f"    main([words[0], {str(tmp_path)!r}, *words[1:]])\n"
        "    assert 'pandas' not in sys.modules, words\n"
    )
    output_of(program)
