"""Each command says what of the numbers that it prints cannot be true."""

import json

import pytest

from opscope import load
from opscope.analysis.torch_listing.averages import key_averages
from opscope.cli.application import main
from opscope.report.page import report_html
from opscope.storage.chrome.plausibility import TOO_LONG_WORK
from support.chrome_files import op


def launched(i, dur):
    shapes = {"Input type": ["float", "float"], "Input Dims": [[8, 8], [8, 8]],
              "Input Strides": [[8, 1], [8, 1]]}  # fmt: skip
    memory = {
        "Device Type": 1,
        "Device Id": 0,
        "Addr": 4096 + i,
        "Bytes": 64,
        "Total Allocated": 64,
    }
    return [
        op("aten::mm", 100 * i, 20, **shapes),
        op("cudaLaunchKernel", 100 * i + 2, 5, cat="cuda_runtime", correlation=i + 1),
        {"ph": "i", "name": "[memory]", "pid": 9, "tid": 1, "ts": 100 * i + 3, "args": memory},
        {**op("gemm", 100 * i + 10, dur, tid=7, cat="kernel", correlation=i + 1, device=0,
              stream=7), "pid": 0},
    ]  # fmt: skip


@pytest.fixture
def path(tmp_path):
    events = [event for i in range(6) for event in launched(i, 1.6e6 if i == 1 else 80)]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    return tmp_path / "t.json"


@pytest.mark.parametrize(
    "arguments",
    [
        ["summary"],
        ["summary", "--format", "json"],
        ["why"],
        ["why", "--format", "csv"],
        ["summary", "--gpu"],
        ["summary", "--gpu", "--format", "json"],
        ["why", "--all"],
        ["memory"],
        ["summary", "--compiled"],
        ["report", "-o", "page.html"],
        ["export", "-o", "out.json"],
        ["export", "-o", "out.opscope"],
        ["diff"],
        ["sql", "select 1"],
    ],
)
def test_every_command_says_it(path, arguments, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    command, *options = arguments
    paths = [str(path)] * (2 if command == "diff" else 1)

    words = [*paths, *options]
    code = main([command, *words])

    said = " ".join("".join(capsys.readouterr()).split())
    assert TOO_LONG_WORK in said
    assert code in (0, None)


def test_what_was_made_of_it_says_it(path, tmp_path):
    trace = load(path)
    assert TOO_LONG_WORK in trace._repr_html_()
    assert TOO_LONG_WORK in report_html(trace)
    assert TOO_LONG_WORK in str(trace.account("all"))
    trace.save(tmp_path / "saved")
    assert TOO_LONG_WORK in load(tmp_path / "saved").device_use().about
    assert len(key_averages(trace)) > 0
