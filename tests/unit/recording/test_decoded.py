"""What the native decoder delivers is held to the schema."""

import numpy as np
import pytest

from opscope.columns.column import Delivered
from opscope.columns.device_schema import DEVICE_TABLES
from opscope.columns.schema import EVENTS, RECORDED_TABLES, TENSORS
from opscope.recording.decoded import delivered_table, read_decoded


def columns_of(schema, rows=2):
    lists = (np.arange(rows + 1), np.arange(rows))
    return {
        column.name: lists if column.is_list else np.ones(rows, dtype=column.dtype)
        for column in schema.delivered
        if column.delivered is not Delivered.SOMETIMES
    }


def window(**changed):
    names = {"name_offsets": np.array([0, 3]), "name_text": b"one"}
    tables = {schema.name: columns_of(schema) for schema in RECORDED_TABLES}
    return {"account": {}, "tables": tables, "devices": None, **names, **changed}


def test_what_is_promised_is_read():
    decoded = read_decoded(window())
    assert decoded.tables.keys() == {schema.name for schema in RECORDED_TABLES}
    assert decoded.names[0] == "one"
    assert decoded.events["unfinished"].tolist() == [True, True]
    assert decoded.tables["tensors"].lists("sizes")[1] == [1]
    assert decoded.devices is None


def test_devices_have_what_the_next_stage_needs_besides():
    tables = {schema.name: columns_of(schema) for schema in DEVICE_TABLES}
    names = {"name_offsets": np.zeros(1, np.int64), "name_text": b""}
    devices = {"account": {}, "tables": tables, **names}
    decoded = read_decoded(window(devices=devices))
    assert decoded.devices.tables["gpu"]["call"].tolist() == [1, 1]
    assert "gpu" not in decoded.tables


def promised():
    for schema in (*RECORDED_TABLES, *DEVICE_TABLES):
        for column in schema.delivered:
            if column.delivered is not Delivered.SOMETIMES:
                yield pytest.param(schema, column, id=f"{schema.name}.{column.name}")


@pytest.mark.parametrize(("schema", "column"), list(promised()))
def test_a_column_that_is_left_out_is_not_filled_in(schema, column):
    columns = columns_of(schema)
    del columns[column.name]
    with pytest.raises(RuntimeError, match=f"differ in {schema.name}: {column.name} is missing"):
        delivered_table(schema, {schema.name: columns})


@pytest.mark.parametrize(
    ("schema", "changed", "fault"),
    [
        (EVENTS, {"kind": np.ones(2, np.int32)}, "kind is int32, not uint8"),
        (EVENTS, {"unfinished": np.ones(2, np.uint8)}, "unfinished is uint8, not bool"),
        (EVENTS, {"step": np.ones(2, np.int32)}, "step is not in the schema"),
        (EVENTS, {"kinds": np.ones(2, np.uint8)}, "kinds is not in the schema"),
        (TENSORS, {"sizes": np.ones(2, np.int64)}, r"sizes is int64, not list\[int64\]"),
        (TENSORS, {"impl": (np.arange(3), np.arange(2))}, r"impl is list\[int64\], not uint64"),
    ],
)
def test_a_column_that_is_something_else_is_refused(schema, changed, fault):
    with pytest.raises(RuntimeError, match=fault):
        delivered_table(schema, {schema.name: {**columns_of(schema), **changed}})


def test_a_table_that_is_left_out_is_not_taken_for_an_empty_one():
    tables = window()["tables"]
    del tables["frames"]
    with pytest.raises(RuntimeError, match="differ in frames: file is missing"):
        read_decoded(window(tables=tables))


def test_what_is_only_delivered_sometimes_may_be_lacking():
    given = {"record_function_id": np.array([5, 6])}
    with_ids = delivered_table(EVENTS, {"events": {**columns_of(EVENTS), **given}})
    assert with_ids["record_function_id"].tolist() == [5, 6]
    assert not delivered_table(EVENTS, {"events": columns_of(EVENTS)}).has("record_function_id")
