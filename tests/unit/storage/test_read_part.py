"""A trace whose columns are read when they are asked for."""

import gc
import weakref

import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opscope import load_trace
from opscope.errors import TraceFormatError
from opscope.storage import parquet, read_part
from opscope.storage.read_part import part_as_needed
from opscope.storage.store import save_part
from support.random_trace import assert_same_trace, random_trace
from support.saved_trace import rewrite


@pytest.fixture
def few_rows(monkeypatch):
    """Every table with rows is a long one."""
    monkeypatch.setattr(read_part, "FEW_ROWS", 0)
    monkeypatch.setattr(parquet, "FEW_ROWS", 0)


@pytest.mark.usefixtures("few_rows")
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32), most_rows=st.sampled_from([0, 1, 3, 700]), known=st.booleans())
def test_what_is_read_as_needed_is_what_is_loaded(seed, most_rows, known, tmp_path_factory):
    with pytest.MonkeyPatch.context() as changed:
        if known:  # what columns have that are one value throughout
            changed.setattr(parquet, "_MANY_ROWS", 0)
        folder = save_part(random_trace(seed, most_rows), tmp_path_factory.mktemp("trace") / "t")
    with part_as_needed(folder) as trace:
        assert_same_trace(trace, load_trace(folder))


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("kind", [300, 300, 300], r"events\.parquet"),
        ("parent", [5, 5, 5], "events.parent"),
        ("thread", [-7, -7, -7], "events.thread points outside threads"),
        ("name", [99, 99, 99], "events.name points outside names"),
    ],
)
def test_one_value_that_cannot_be_is_refused(saved, name, values, message):
    frame = pandas.read_parquet(saved / "events.parquet")
    frame[name] = np.array(values, dtype=np.int32)
    rewrite(saved, "events", frame)  # pandas has Arrow write what columns have
    with pytest.raises(TraceFormatError, match=message), part_as_needed(saved) as trace:
        trace.events[name]


@pytest.mark.usefixtures("few_rows")
def test_what_a_file_says_of_other_kinds_of_columns_is_not_relied_on(saved):
    """Truths as numbers, rows without a value, NaN among equal floats: they are read."""
    frame = pandas.read_parquet(saved / "events.parquet")
    frame["is_async"] = np.array([1, 1, 1], dtype=np.int32)
    frame["step"] = pandas.array([2, None, 2], dtype="Int32")
    rewrite(saved, "events", frame)
    with part_as_needed(saved) as trace:
        loaded = load_trace(saved).events
        for name in ("is_async", "step"):
            assert trace.events[name].tolist() == loaded[name].tolist()
        assert trace.events["step"].tolist() == [2, -1, 2]


@pytest.mark.usefixtures("few_rows")
def test_columns_are_gone_with_the_trace_without_a_collection(saved):
    gc.collect()
    gc.disable()
    try:
        with part_as_needed(saved) as trace:
            table = weakref.ref(trace.events)
            trace.events["start_ns"]
        del trace
        assert table() is None
    finally:
        gc.enable()


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize(
    ("table", "changed", "asked", "message"),
    [
        ("events", {"parent": [-1, 2, 0]}, "parent", "events.parent points to a later event"),
        ("events", {"start_ns": [5, 4, 6]}, "start_ns", "events.start_ns is not in order"),
        ("events", {"name": [0, 99, 0]}, "name", "events.name points outside names"),
        ("tensors", {"argument": [0, 30_000]}, "argument", "beyond the arguments of its event"),
        ("tensors", {"event": [0, -3]}, "argument", "tensors.event points outside events"),
    ],
)
def test_damage_is_reported_of_columns_that_are_requested(saved, table, changed, asked, message):
    frame = pandas.read_parquet(saved / f"{table}.parquet")
    for name, values in changed.items():
        frame[name] = values
    if "event" in changed:  # a position that has the events of tensors looked at
        frame["argument"] = [0, 30_000]
    rewrite(saved, table, frame)
    with part_as_needed(saved) as trace:
        assert len(trace.table("tensors")["version"]) == 2
        for _ in range(2):
            with pytest.raises(TraceFormatError, match=message):
                trace.table(table)[asked]


@pytest.mark.usefixtures("few_rows")
def test_damaged_bytes_are_reported_with_their_column(saved):
    file = saved / "events.parquet"
    place = pq.read_metadata(file).row_group(0)
    at = {
        place.column(i).path_in_schema: place.column(i).data_page_offset
        for i in range(place.num_columns)
    }
    content = bytearray(file.read_bytes())
    for offset in range(at["duration_ns"] + 20, at["duration_ns"] + 60):
        content[offset] ^= 0xFF
    file.write_bytes(content)
    with part_as_needed(saved) as trace:
        assert len(trace.events["start_ns"]) == 3
        with pytest.raises(TraceFormatError, match=r"events\.parquet"):
            trace.events["duration_ns"]
    with pytest.raises(TraceFormatError, match=r"events\.parquet"):
        load_trace(saved)
