"""``opscope export``: the format asked for, or the one that the file's name says."""

import pytest

import opscope
from support.build_trace import build_trace, span


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
