"""``opscope export --replay``: a table, or JSON, and what was left out."""

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


def test_a_chrome_file_is_replayed_and_an_execution_trace_is_named(command_line, tmp_path):
    trace = build_trace([span("aten::mm", 0, 10, inputs=[tensor(2, 3), tensor(3, 4)])])
    trace.export("chrome", tmp_path / "t.json")
    trace.export("execution-trace", tmp_path / "t.et.json")

    outcome = command_line("export --replay", tmp_path / "t.json", "--repeat", "3")

    assert outcome.code == 0
    assert "aten::mm" in outcome.out
    said = command_line("export --replay", tmp_path / "t.et.json").complaint
    assert "is an execution trace" in said and "--shapes" in said


def test_what_cannot_be_replayed_is_one_paragraph(command_line, tmp_path):
    build_trace([span("no::such", 0, 1, inputs=[1])]).save(tmp_path / "t.opscope")

    outcome = command_line("export --replay", tmp_path / "t.opscope")

    assert outcome.code == 2
    assert "no::such: this torch has no operator of that name" in outcome.complaint
