"""``opscope export --replay``: a table, or JSON, and what was left out."""

import json

from support.build_trace import build_trace, span, tensor


def test_a_table_compares_then_and_now(command_line, trace_folder):
    outcome = command_line("export --replay", trace_folder, "--repeat", "3")

    assert outcome.code == 0
    header, first, *_ = outcome.out.splitlines()
    assert header.split() == [
        "Operator", "Input", "shapes", "Calls", "Recorded", "Replayed", "Replayed", "/", "recorded"
    ]  # fmt: skip
    assert first.split()[:6] == ["aten::mm", "[[20,", "30],", "[30,", "40]]", "1"]
    assert "40.0 µs" in first
    assert "3 calls, 2 of them distinct" in outcome.err
    assert "not replayed: aten::add (1 calls): not all" in outcome.err.replace(
        "it fails", "not all"
    )


def test_json_has_every_row(command_line, trace_folder):
    outcome = command_line("export --replay", trace_folder, "--repeat", "3", "--format", "json")

    content = json.loads(outcome.out)
    assert [row["calls"] for row in content["replayed"]] == [1, 2]
    assert content["replayed"][0]["recorded_ns"] == 40_000
    assert content["refused"][0]["name"] == "aten::add"


def test_a_chrome_file_is_replayed_and_an_execution_trace_is_named(command_line, tmp_path):
    trace = build_trace([span("aten::mm", 0, 10, inputs=[tensor(2, 3), tensor(3, 4)])])
    trace.export("chrome", tmp_path / "t.json")
    trace.export("execution-trace", tmp_path / "t.et.json")

    outcome = command_line("export --replay", tmp_path / "t.json", "--repeat", "3")

    assert outcome.code == 0
    assert "aten::mm" in outcome.out
    said = command_line("export --replay", tmp_path / "t.et.json").complaint
    assert "is an execution trace" in said and "--shapes" in said


def test_rows_can_be_limited(command_line, trace_folder):
    outcome = command_line("export --replay", trace_folder, "--repeat", "3", "--row-limit", "1")

    assert len(outcome.out.splitlines()) == 2
    assert "1 more rows: --row-limit -1 shows all" in outcome.err
    assert (
        "--row-limit"
        in command_line("export --replay", trace_folder, "--row-limit", "-2").complaint
    )


def test_what_cannot_be_replayed_is_one_paragraph(command_line, tmp_path):
    build_trace([span("no::such", 0, 1, inputs=[1])]).save(tmp_path / "t.opscope")

    outcome = command_line("export --replay", tmp_path / "t.opscope")

    assert outcome.code == 2
    assert "no::such: this torch has no operator of that name" in outcome.complaint


def test_a_cut_file_is_one_paragraph(command_line, tmp_path):
    (tmp_path / "t.json").write_text('{"schema": "1", "traceEvents": [{"ph": "')

    assert "stops in the middle" in command_line("export --replay", tmp_path / "t.json").complaint
