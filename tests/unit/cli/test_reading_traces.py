"""Traces that cannot be read: one paragraph, no traceback, not 0."""

import json

import pytest

import opscope
from support.build_trace import build_trace


def arguments_for(command, trace, tmp_path):
    extra = {"summary": [], "sql": ["select 1"], "export": ["-o", tmp_path / "out.json"]}
    return [command, trace, *extra[command]]


@pytest.fixture(params=["summary", "sql", "export"])
def read(request, command_line, tmp_path):
    return lambda trace: command_line(*arguments_for(request.param, trace, tmp_path))


def test_missing(read, tmp_path):
    assert "There is no trace at" in read(tmp_path / "nothing").complaint


def test_a_folder_that_is_no_trace(read, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").touch()
    assert str(tmp_path / "folder") in read(tmp_path / "folder").complaint


def test_damaged(read, trace_folder):
    events = trace_folder / "rank=00000" / "events.parquet"
    events.write_bytes(events.read_bytes()[:-20])
    assert "damaged" in read(trace_folder).complaint


def test_newer_schema(read, trace_folder):
    manifest = trace_folder / "rank=00000" / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "schema_version": 999}))
    assert "newer" in read(trace_folder).complaint


def test_several_ranks(read, trace_folder):
    trace = opscope.load(trace_folder)
    trace.save(trace_folder, rank=7)
    assert "several ranks: 0, 7. Choose one with --rank." in read(trace_folder).complaint


def test_not_json(read, tmp_path):
    (tmp_path / "broken.json").write_text('{"traceEvents": [')
    assert "broken.json" in read(tmp_path / "broken.json").complaint


def test_empty_trace_is_not_a_success(command_line, tmp_path):
    build_trace([]).save(tmp_path / "empty.opscope")
    for command in ("summary", "export"):
        outcome = command_line(*arguments_for(command, tmp_path / "empty.opscope", tmp_path))
        assert "holds no event" in outcome.complaint
    assert not (tmp_path / "out.json").exists()
