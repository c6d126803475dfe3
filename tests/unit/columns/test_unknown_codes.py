"""What a newer opscope recorded: shown as unknown or left out, and said, in every view."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opscope import load_trace
from opscope.columns.ledger import NEWER
from opscope.columns.schema import TABLES, UNKNOWN_KIND, RecordScope
from opscope.export.all_formats import FORMATS
from opscope.report.page import report_html
from opscope.timeline.tree.node import NodeKind
from support.hostile_sources import built_trace
from support.read_report import read_report
from support.rewritten_trace import change_row, write_table


@pytest.fixture
def saved(tmp_path):
    return built_trace().save(tmp_path / "t")


def newer_events(saved, *kinds):
    for row, kind in enumerate(kinds, start=3):
        change_row(saved, "events", "kind", row, kind)
    return load_trace(saved)


def test_they_are_unknown_in_every_view(saved, tmp_path):
    trace = newer_events(saved, 13)
    nodes = {node.row: node.kind for node in trace.tree().depth_first()}
    assert nodes[3] is NodeKind.UNKNOWN
    assert trace.to_arrow("events")["kind"].to_pylist()[3] == "unknown"
    trace.export("chrome", tmp_path / "t.json")
    rows = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert [row["name"] for row in rows if row.get("cat") == "unknown"] == ["aten::mm"]
    trace.export("perfetto", tmp_path / "t.pftrace")
    assert b"unknown" in (tmp_path / "t.pftrace").read_bytes()
    labels = read_report(report_html(trace)).data["spans"]["labels"]
    assert dict(zip(labels["text"], labels["kind"], strict=True))["aten::mm"] == -1


@pytest.mark.parametrize("format", [format.name for format in FORMATS])
def test_every_format_is_written_whatever_the_kinds(saved, tmp_path, format):
    trace = newer_events(saved, 8, 64, 255)
    try:
        trace.export(format, tmp_path / "out.memory.json")
    except ValueError as error:
        assert format in ("stacks", "memory-timeline"), error


@pytest.mark.parametrize(
    ("table", "column", "code"),
    [("tensors", "role", 5), ("scalars", "type", 13), ("scalars", "role", 9), ("gpu", "kind", 5),
     ("allocations", "action", 3)],
)  # fmt: skip
def test_rows_that_nothing_refers_to_are_left_out_and_counted(saved, table, column, code):
    rows = len(load_trace(saved).table(table))
    change_row(saved, table, column, 0, code)
    trace = load_trace(saved)
    assert len(trace.table(table)) == rows - 1
    assert trace.ledger[NEWER] == {f"dropped: {table} of {column} {code}": 1.0}


def test_the_count_survives_saving_the_trace_again(saved, tmp_path):
    change_row(saved, "gpu", "kind", 0, 7)
    trace = newer_events(saved, 13)
    trace.save(tmp_path / "again")
    again = load_trace(tmp_path / "again")
    assert again.ledger[NEWER] == trace.ledger[NEWER]
    assert again.events["kind"].tolist() == trace.events["kind"].tolist()


def test_tables_and_columns_of_a_newer_version_are_named(saved):
    write_table(saved, "sparkles", pa.table({"a": [1]}))
    data = pq.read_table(saved / "gpu.parquet")
    write_table(saved, "gpu", data.append_column("power_w", data["size_bytes"]))
    assert load_trace(saved).ledger[NEWER] == {
        "left out: table sparkles": 1.0,
        "left out: column gpu.power_w": 1.0,
    }


def test_scopes_of_a_newer_torch_have_a_name():
    assert RecordScope(12).name == "SCOPE_12"
    with pytest.raises(ValueError, match="256"):
        RecordScope(256)


def test_every_code_that_is_declared_has_its_label():
    from opscope.columns.labels import LABELS

    for name, schema in TABLES.items():
        for column in schema.columns:
            if column.codes is not None:
                assert set(column.codes) == set(LABELS[name, column.name]) - {UNKNOWN_KIND}
