"""``opscope roofline`` prints what operators reach, and what the machine was measured to do."""

import json

import pytest

from opscope.analysis.roofline import peaks as peaks_module

pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def plain_machine(monkeypatch, tmp_path):
    monkeypatch.setenv("OPSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(peaks_module, "_best_of_threads", lambda *_: 1e9)


def test_a_table(command_line, trace_folder):
    done = command_line("roofline", trace_folder)
    assert done.code == 0
    assert "aten::mm" in done.out
    assert "1 GFLOP/s in float32" in done.err
    assert "of the operators' time" in done.err


def test_json(command_line, trace_folder):
    found = json.loads(command_line("roofline", trace_folder, "--format", "json").out)
    (row,) = found["rows"]
    assert (row["operator"], row["calls"]) == ("aten::mm", 3)
    assert row["flops"] == 2 * 2 * 3 * 4 * 2 + 2 * 20 * 30 * 40
    assert found["peaks"]["flops_per_s"] == {"float32": 1e9}


@pytest.mark.parametrize(("format", "begins"), [("csv", "operator,calls"), ("md", "| Operator |")])
def test_other_formats(command_line, trace_folder, format, begins):
    done = command_line("roofline", trace_folder, "--format", format, "--measure")
    assert done.out.startswith(begins)
