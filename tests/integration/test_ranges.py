"""Spans that another tool shows as well, while they are recorded."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="shows the spans of torch operators")

import opscope  # noqa: E402
from support.range_tools import nested  # noqa: E402

PROGRAM = """
import torch
import opscope
def profiled(**options):
    return opscope.profile(**options)
x = torch.ones(3)
with profiled(emit_nvtx=True, record_shapes=True) as outer:
    x.sin()
    with profiled(emit_nvtx=True) as inner:
        x.cos()
    x.tan()
    with profiled(emit_itt=True) as other:
        x.exp()
x.abs()
for prof in (outer, inner, other):
    print(prof.trace.ledger["ranges"], [n for n in ("aten::sin", "aten::cos", "aten::exp")
          if n in {e.name for e in prof.events()}], sep=";")
"""


@pytest.fixture
def run(tmp_path):
    """Runs opscope or a program: (standard output, standard error, lines of the NVTX tool)."""

    def run(arguments, program, **environment):
        (tmp_path / "program.py").write_text(program)
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={**os.environ, "NVTX_LOG": str(tmp_path / "log"), **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        log = tmp_path / "log"
        return done.stdout, done.stderr, log.read_text().splitlines() if log.exists() else []

    return run


def test_a_recording_and_a_tool_have_the_same_spans(run, range_tools, tmp_path):
    command = ["-m", "opscope", "run", "--nvtx", "-o", "out", "program.py"]
    tool = str(range_tools["nvtx_injection"])
    program = "import torch\ntorch.ones(3).sin().cos()\n"
    _, _, lines = run(command, program, NVTX_INJECTION64_PATH=tool)
    trace = opscope.load(tmp_path / "out")
    shown = [text.partition(",")[0] for _, text in nested(lines, "pop")]
    recorded = [trace.event_name(row) for row in range(len(trace.events))]
    assert [name for name in recorded if name.startswith("aten::")] == [
        name for name in shown if name.startswith("aten::")
    ]
    assert {"aten::ones", "aten::sin", "aten::cos"} <= set(shown)
    assert trace.ledger["ranges"] == {"NVTX: shown by another tool as well": 1}


def test_spans_are_shown_for_as_long_as_any_recording_wants_it(run, range_tools):
    tool = str(range_tools["nvtx_injection"])
    said, errors, lines = run(["program.py"], PROGRAM, NVTX_INJECTION64_PATH=tool)
    shown = [text for _, text in nested(lines, "pop")]
    names = [text.partition(",")[0] for text in shown]
    assert [names.count(f"aten::{name}") for name in ("sin", "cos", "tan", "exp", "abs")] == [
        *(1, 1, 1, 1, 0)
    ]
    assert all("sizes" in text for text in shown if text.startswith("aten::tan"))
    outer, inner, other = (line.split(";") for line in said.splitlines())
    assert "NVTX: shown" in outer[0] and "NVTX: shown" in inner[0]
    assert "ITT: they go to NVTX already" in other[0]
    assert "no ITT ranges are shown: they go to NVTX already" in errors
    assert "aten::cos" in inner[1] and "aten::exp" in other[1], "recorded as ever"


def test_without_a_tool_it_is_said_and_recorded_as_ever(run):
    said, errors, lines = run(["program.py"], PROGRAM, NVTX_INJECTION64_PATH="/no/such/tool.so")
    assert lines == []
    assert "no NVTX ranges are shown" in errors and "check that path" in errors
    assert "aten::sin" in said and "could not be loaded" in said


REACHED = """
import os, subprocess, sys, threading
import torch
import opscope
x, over = torch.ones(3), threading.Event()
def work():
    while not over.is_set():
        x.sin()
worker = threading.Thread(target=work)
worker.start()
command = ["attach", str(os.getpid()), "--nvtx", "--seconds", "0.2", "-o", "taken"]
done = subprocess.run([sys.executable, "-m", "opscope", *command], capture_output=True, text=True)
over.set()
worker.join()
x.abs()
assert done.returncode == 0, done.stderr
print(opscope.load("taken").ledger["ranges"])
"""


def test_ranges_end_with_a_recording_that_was_asked_for_from_outside(run, range_tools, tmp_path):
    said, _, lines = run(
        ["program.py"],
        REACHED,
        NVTX_INJECTION64_PATH=str(range_tools["nvtx_injection"]),
        OPSCOPE_CONTROL="1",
        XDG_RUNTIME_DIR=str(tmp_path),
    )
    names = {line.partition(" ")[2].partition(",")[0] for line in lines}
    assert "NVTX: shown" in said
    assert "aten::sin" in names
    assert "aten::abs" not in names
