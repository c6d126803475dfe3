"""``opscope export``: the format asked for, or the one that the file's name says."""

import pytest

import opscope
from support.build_trace import build_trace, span, tensor


def test_chrome_trace_becomes_a_trace_folder(command_line, trace_folder, tmp_path):
    chrome, folder = tmp_path / "other.json", tmp_path / "again.opscope"
    assert command_line("export", trace_folder, "-o", chrome).code == 0
    assert command_line("export", chrome, "-o", folder).code == 0
    trace = opscope.load(folder)
    names = [trace.event_name(event) for event in range(len(trace.events))]
    assert names.count("aten::mm") == 3


def test_names_are_hashed_in_any_format(command_line, trace_folder, tmp_path):
    outcome = command_line("export", trace_folder, "-o", tmp_path / "h.json", "--hash-names")
    assert outcome.code == 0, outcome.err
    said = (tmp_path / "h.json").read_text()
    assert "aten::mm" in said and '"step"' not in said


def test_stacks(command_line, tmp_path):
    build_trace([
        span("train.py(3): main", 0, 100, kind=2, frame=("train.py", 3, "main")),
        span("aten::mm", 10, 60),
    ]).save(tmp_path / "stacks.opscope")  # fmt: skip
    outcome = command_line("export", tmp_path / "stacks.opscope", "-o", tmp_path / "out.txt")
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "out.txt").read_text() == "train.py(3):_main 100\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "out.xyz"], "Add --format"),
        ([], "--output"),
        (["-o", "out.json", "--metric", "self_cpu_time_total"], "--metric is for stacks"),
        (["-o", "out.txt", "--metric", "weight"], "'weight'"),
        (["-o", "out.txt"], "no Python stacks"),
        (["-o", "missing/folder/out.json"], "missing/folder"),
        (["-o", "out.json", "--format", "pdf"], "pdf"),
    ],
)
def test_mistakes(command_line, trace_folder, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    outcome = command_line("export", trace_folder, *arguments)
    assert outcome.code == 2
    assert said in outcome.complaint
    assert [path.name for path in tmp_path.iterdir()] == ["small.opscope"]


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
